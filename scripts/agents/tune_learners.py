"""Choose hyper-parameters and lengths of training of a suite's learners, on validation seeds.

    python scripts/agents/tune_learners.py failslow --steps 200000 -p gamma=0.9,0.99,1 --out FOLDER
    python scripts/agents/tune_learners.py pipelines --scenario pipeline-unseen --steps 300000 --out FOLDER

Every combination of the given values is trained in each of the suite's scenarios, over the suite's own
settings, and its checkpoints play the first validation seeds. Prints the mean of the headline metric for ten
lengths of training, beside the contenders of the suite that do not learn, on the same seeds. Means that still
improve in the last columns need a longer training. Test seeds are not touched.

The same command resumes an interrupted run: trainings go on from their checkpoints in ``--out``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import sysgym
from sysgym.agents.learned.training.train import checkpoints_in
from sysgym.agents.registry import agent_info
from sysgym.bench.contenders import Contender, contender_from, parse_contender
from sysgym.bench.run.episodes import make_contender, play
from sysgym.bench.run.training import Training
from sysgym.bench.tables import markdown_table
from sysgym.scenarios import get_family, load_scenario, load_suite
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.files import write_atomically
from sysgym.scenarios.schema.suite import TrainingSpec

REGISTERED = sysgym.__version__


class Job(NamedTuple):
    """A training with one combination of values.

    Attributes:
        spec: The suite's training with these values.
        words: Name in the table.
        folder: Folder of the training.
        episodes: Validation episodes of each checkpoint.
    """

    spec: TrainingSpec
    words: str
    folder: Path
    episodes: int


def job_of(
    spec: TrainingSpec, settings: Mapping[str, Any], *, steps: int, seed: int, episodes: int, out: Path
) -> Job:
    """Return the job of a suite's training with other hyper-parameters.

    Args:
        spec: The training.
        settings: Hyper-parameters that are tried.
        steps: Environment steps.
        seed: Seed of the training.
        episodes: Validation episodes of each checkpoint.
        out: Folder of all trainings.
    """
    tried = [f"{name}={value}" for name, value in settings.items()]
    words = ", ".join([spec.agent, *tried, f"seed {seed}"])
    hyper_parameters = {**spec.hyper_parameters, **settings}
    own = {"total_steps": steps, "seed": seed, "hyper_parameters": hyper_parameters}
    folder = out / spec.scenario / words.replace(", ", "-").replace(" ", "")
    return Job(spec.model_copy(update=own), words, folder, episodes)


class Mean(NamedTuple):
    """Mean of a metric over episodes."""

    metric: str
    value: float


def validation_mean(scenario: str, contender: Contender, episodes: int) -> Mean:
    """Return the mean of the headline metric, or of the benefit without it, over validation seeds."""
    loaded = load_scenario(scenario)
    evaluation = get_family(loaded.family).evaluation_of(loaded.env_id)
    first = loaded.splits["validation"].first_seed
    env, agent = make_contender(loaded.resolved(), "validation", contender)
    with closing(env):
        played = [play(env, agent, seed).info["episode_metrics"] for seed in range(first, first + episodes)]
    headline, benefit = evaluation.headline.name, evaluation.benefit.name
    metric = headline if headline in played[0] else benefit
    return Mean(metric, fmean(one[metric] for one in played))


def learning_curve(job: Job) -> list[tuple[int, float]]:
    """Train, and return pairs of steps and validation mean."""
    scenario = load_scenario(job.spec.scenario)
    training = Training.from_spec(job.spec, scenario, job.folder)
    training.run(lambda steps: None)
    known_file = job.folder / f"validation-{job.episodes}.json"
    known: dict[str, float] = json.loads(known_file.read_text()) if known_file.exists() else {}
    for checkpoint in checkpoints_in(training.folder):
        if checkpoint.stem not in known:
            text = f"{job.spec.agent}@{checkpoint}"
            player = parse_contender(text, family=scenario.family, env_id=scenario.env_id)
            known[checkpoint.stem] = validation_mean(job.spec.scenario, player, job.episodes).value
            write_atomically(known_file, json.dumps(known, indent=1).encode())
    return sorted((int(name.partition("_")[2]), mean) for name, mean in known.items())


def rules(suite: str, scenario: str, episodes: int) -> Iterator[tuple[str, Mean]]:
    """Yield the contenders of a scenario that do not learn, and their validation means."""
    loaded = load_scenario(scenario)
    family, env_id = loaded.family, loaded.env_id
    for task in load_suite(suite).tasks:
        if task.scenario != scenario:
            continue
        for item in task.contenders:
            contender = (
                parse_contender(item, family=family, env_id=env_id)
                if isinstance(item, str)
                else contender_from(
                    item.name, item.transport, item.agent, (), family, item.parameters, env_id
                )
            )
            if not agent_info(contender.agent, family).learned:
                yield contender.name, validation_mean(scenario, contender, episodes)


def trainings_of(suite: str, scenarios: list[str] | None) -> list[TrainingSpec]:
    """Return a suite's trainings, one for each agent and scenario.

    Raises:
        SysgymError: If there is none in the given scenarios.
    """
    several = {
        (one.agent, one.scenario): one
        for one in load_suite(suite).training
        if scenarios is None or one.scenario in scenarios
    }
    if not several:
        known = ", ".join(dict.fromkeys(one.scenario for one in load_suite(suite).training))
        raise SysgymError(f"{suite}: no training in {', '.join(scenarios or [])}; it has {known or 'none'}")
    return list(several.values())


def combinations(parameters: list[str]) -> list[dict[str, Any]]:
    """Return the mappings from hyper-parameters to values that ``NAME=VALUE,VALUE`` describe.

    Raises:
        SysgymError: If one has another form.
    """
    names, values = [], []
    for text in parameters:
        name, equals, listed = text.partition("=")
        if not name or not equals or not listed:
            raise SysgymError(f"-p {text}: expected NAME=VALUE,VALUE, as gamma=0.9,0.99")
        names.append(name)
        try:
            values.append([json.loads(value) for value in listed.split(",")])
        except ValueError:
            raise SysgymError(f"-p {text}: expected numbers after the =, as gamma=0.9,0.99") from None
    return [dict(zip(names, chosen, strict=True)) for chosen in itertools.product(*values)]


def main() -> None:
    """Train all combinations and print a table for each scenario."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite", help="suite with trainings by general algorithms")
    parser.add_argument("--scenario", action="append", help="of the suite's trainings (default: all)")
    parser.add_argument("--steps", type=int, required=True, help="environment steps of each training")
    parser.add_argument("-p", action="append", default=[], metavar="NAME=VALUE,VALUE", help="values to try")
    parser.add_argument("--seeds", default="1", help="seeds of the trainings (default: 1)")
    parser.add_argument("--episodes", type=int, default=20, help="validation episodes (default: 20)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--out", type=Path, required=True, help="folder of the trainings")
    given = parser.parse_args()
    try:
        tried = combinations(given.p)
        trainings = trainings_of(given.suite, given.scenario)
        jobs = [
            job_of(one, settings, steps=given.steps, seed=seed, episodes=given.episodes, out=given.out)
            for one in trainings
            for settings in tried
            for seed in map(int, given.seeds.split(","))
        ]
        with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
            found = list(pool.map(learning_curve, jobs))
        curves = {(job.spec.scenario, job.words): curve for job, curve in zip(jobs, found, strict=True)}
        for one in trainings:
            print(table(given.suite, one.scenario, curves, given.episodes), flush=True)
    except SysgymError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on")


def table(
    suite: str, scenario: str, curves: Mapping[tuple[str, str], list[tuple[int, float]]], episodes: int
) -> str:
    """Return a scenario's validation means in Markdown, a column for each length of training."""
    own = {words: curve for (of, words), curve in curves.items() if of == scenario}
    lengths = [steps for steps, _ in next(iter(own.values()))]
    body = [[words, *(f"{mean:.4g}" for _, mean in curve)] for words, curve in own.items()]
    means = dict(rules(suite, scenario, episodes))
    empty = [""] * (len(lengths) - 1)
    body += [[name, f"{mean.value:.4g}", *empty] for name, mean in means.items()]
    metrics = ", ".join({mean.metric: None for mean in means.values()})
    title = f"`{scenario}`: {metrics}, mean of {episodes} validation seeds, by steps"
    return markdown_table([title, *(f">{steps}" for steps in lengths)], body) + "\n"


if __name__ == "__main__":
    main()
