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
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import gymnasium as gym

import sysgym
from sysgym.agents import make_agent
from sysgym.agents.learned.training.train import checkpoints_in, train
from sysgym.agents.protocol import Agent, play_episode
from sysgym.agents.registry import agent_info
from sysgym.bench.tables import markdown_table
from sysgym.scenarios import get_family, load_scenario, load_suite
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.schema.suite import ContenderSpec, TrainingSpec

REGISTERED = sysgym.__version__
COLUMNS = 10
"""Checkpoints that are played."""


class Job(NamedTuple):
    """A training with one combination of values.

    Attributes:
        agent: Learning algorithm.
        scenario: Name of the scenario.
        settings: Hyper-parameters that are tried.
        others: Hyper-parameters of the suite.
        steps: Environment steps.
        n_envs: Parallel environments.
        seed: Seed of the training.
        episodes: Validation episodes of each checkpoint.
        out: Folder of all trainings.
    """

    agent: str
    scenario: str
    settings: Mapping[str, Any]
    others: Mapping[str, Any]
    steps: int
    n_envs: int
    seed: int
    episodes: int
    out: Path

    @property
    def words(self) -> str:
        """Name in the table."""
        tried = [f"{name}={value}" for name, value in self.settings.items()]
        return ", ".join([self.agent, *tried, f"seed {self.seed}"])

    @property
    def folder(self) -> Path:
        """Folder of the training."""
        return self.out / self.scenario / self.words.replace(", ", "-").replace(" ", "")


def headline(scenario: str) -> str:
    """Return the name of the metric by which results of a scenario are ranked."""
    loaded = load_scenario(scenario)
    return get_family(loaded.family).evaluation_of(loaded.env_id).headline.name


def validation_mean(scenario: str, agent: Agent, episodes: int) -> float:
    """Return the mean of the headline metric over the first validation seeds."""
    loaded = load_scenario(scenario)
    env = gym.make(loaded.env_id, scenario=scenario, split="validation", disable_env_checker=True)
    first, name = loaded.splits["validation"].first_seed, headline(scenario)
    played = (
        play_episode(env, agent, options={"episode_seed": seed})[1] for seed in range(first, first + episodes)
    )
    mean = fmean(info["episode_metrics"][name] for info in played)
    env.close()
    return mean


def learning_curve(job: Job) -> list[tuple[int, float]]:
    """Train, and return pairs of steps and validation mean."""
    train(
        job.agent,
        job.scenario,
        total_steps=job.steps,
        out=job.folder,
        seed=job.seed,
        n_envs=job.n_envs,
        resume=True,
        hyper_parameters={**job.others, **job.settings},
        checkpoint_every=-(-job.steps // COLUMNS),
    )
    family = load_scenario(job.scenario).family
    known_file = job.folder / f"validation-{job.episodes}.json"
    known: dict[str, float] = json.loads(known_file.read_text()) if known_file.exists() else {}
    for checkpoint in checkpoints_in(job.folder):
        if checkpoint.stem not in known:
            player = make_agent(job.agent, family=family, checkpoint=str(checkpoint))
            known[checkpoint.stem] = validation_mean(job.scenario, player, job.episodes)
            known_file.write_text(json.dumps(known, indent=1))
    return sorted((int(name.partition("_")[2]), mean) for name, mean in known.items())


def rules(suite: str, scenario: str, episodes: int) -> Iterator[tuple[str, float]]:
    """Yield the contenders of a scenario that do not learn, and their validation means."""
    family = load_scenario(scenario).family
    for task in load_suite(suite).tasks:
        if task.scenario != scenario:
            continue
        for contender in task.contenders:
            name, agent, parameters = str(contender), str(contender), {}
            if isinstance(contender, ContenderSpec):
                name, agent, parameters = (
                    contender.name,
                    contender.agent,
                    dict[str, Any](contender.parameters),
                )
            if not agent_info(agent, family).learned:
                player = make_agent(agent, family=family, **parameters)
                yield name, validation_mean(scenario, player, episodes)


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
            Job(
                one.agent,
                one.scenario,
                settings,
                {name: value for name, value in one.hyper_parameters.items() if name not in settings},
                given.steps,
                one.n_envs,
                seed,
                given.episodes,
                given.out,
            )
            for one in trainings
            for settings in tried
            for seed in map(int, given.seeds.split(","))
        ]
        with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
            found = list(pool.map(learning_curve, jobs))
        curves = {(job.scenario, job.words): curve for job, curve in zip(jobs, found, strict=True)}
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
    empty = [""] * (len(lengths) - 1)
    body += [[name, f"{mean:.4g}", *empty] for name, mean in rules(suite, scenario, episodes)]
    title = f"`{scenario}`: {headline(scenario)}, mean of {episodes} validation seeds, by steps"
    return markdown_table([title, *(f">{steps}" for steps in lengths)], body) + "\n"


if __name__ == "__main__":
    main()
