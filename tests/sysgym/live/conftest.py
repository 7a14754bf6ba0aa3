"""Short runs for the tests of the live view."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sysgym.bench.contenders import parse_contender
from sysgym.live.run import Run
from sysgym.scenarios import load_scenario

SHORT = {"control.episode_steps": 40}

MakeRun = Callable[..., Run]


@pytest.fixture
def make_run() -> Iterator[MakeRun]:
    """Make runs of the scenario incast-32 that last 8 ms, or of another one; closed after the test."""
    runs: list[Run] = []

    def make(
        *contenders: str, scenario: str = "incast-32", overrides: dict[str, object] | None = None
    ) -> Run:
        loaded = load_scenario(scenario, overrides=SHORT if overrides is None else overrides)
        parsed = [
            parse_contender(text, family=loaded.family, env_id=loaded.env_id).with_shipped(loaded.name)
            for text in contenders
        ]
        runs.append(Run(loaded, "test", loaded.splits["test"].first_seed, parsed))
        return runs[-1]

    yield make
    for run in runs:
        run.close()
