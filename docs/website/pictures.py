"""Animations of episodes, one for each environment, drawn by the environments themselves."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from PIL import Image

from docs.website.environments import environments, slug
from sysgym.agents import Agent, agent_info, environment_arguments, list_agents, make_agent
from sysgym.scenarios import list_scenarios
from sysgym.scenarios.family import Environment, Family

SIZE = (800, 560)
"""Largest width and height; frames keep their proportions."""

FRAMES = 16
COLOURS = 64
FRAME_MS = 300
LAST_FRAME_MS = 3000

_PLAYED: Mapping[str, tuple[str, str]] = {
    "sysgym/BurstMux-v0": ("burst-mux", "model_background"),
    "sysgym/GradCompress-v0": ("compression-drift", "crossover"),
    "sysgym/DatacenterCC-v0": ("incast-32", "aimd"),
    "sysgym/FlowCC-v0": ("flow-datacenter", "flow_aimd"),
    "sysgym/TrainingDiagnosis-v0": ("diagnosis-jobs", "narrowing"),
    "sysgym/FailSlow-v0": ("failslow-hybrid", "payback"),
    "sysgym/PipelineTuning-v0": ("pipeline-gpt", "critical_path"),
    "sysgym/CollectivePlacement-v0": ("placement-unseen", "greedy"),
    "sysgym/ReductionProgram-v0": ("program-unseen", "greedy"),
    "sysgym/JointPlacement-v0": ("joint-unseen", "bayes"),
    "sysgym/MultiJobPlacement-v0": ("multi-job-unseen", "greedy"),
    "sysgym/StragglerPrediction-v0": ("google-2011", "late"),
    "sysgym/StragglerMitigation-v0": ("google-2011-mitigation", "late"),
    "sysgym/TrainingTuning-v0": ("tuning-buckets", "fusion"),
}
"""Id -> scenario and agent; environments that are not here get the first of each."""


def played(family: Family, environment: Environment) -> tuple[str, str]:
    """Return the scenario and the agent of an environment's animation."""
    if environment.env_id in _PLAYED:
        return _PLAYED[environment.env_id]
    scenario = next(one.name for one in list_scenarios(family.name) if one.env_id == environment.env_id)
    infos = (agent_info(name, family.name) for name in list_agents(family.name))
    agent = next(
        one.short_name for one in infos if not one.learned and one.env_id in ("", environment.env_id)
    )
    return scenario, agent


def file_names() -> list[str]:
    """Return the names of the files that :func:`draw_all` writes."""
    return [_file_name(environment) for _, environment in environments()]


def draw_all(folder: Path) -> None:
    """Draw an episode of every environment into ``folder``, as ``NAME.gif``; files that exist are kept.

    There is a process for each core. A family's environments are drawn by one process, as they share what has
    to be compiled first, unless they are on the packet simulator: each takes another of its event loops.
    """
    folder.mkdir(parents=True, exist_ok=True)
    on_packets: list[list[str]] = []
    others: dict[str, list[str]] = {}
    for family, environment in environments():
        if (folder / _file_name(environment)).exists():
            continue
        if family.transports is not None:
            on_packets.append([environment.env_id])
        else:
            others.setdefault(family.name, []).append(environment.env_id)
    # The longest first. The first on packets comes last: its loop is being compiled for its page, too.
    if tasks := [*on_packets[1:], *others.values(), *on_packets[:1]]:
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            list(pool.map(_draw_some, tasks, repeat(folder)))


def _draw_some(env_ids: list[str], folder: Path) -> None:
    for family, environment in environments():
        if environment.env_id in env_ids:
            draw(family, environment, folder / _file_name(environment))


def _file_name(environment: Environment) -> str:
    return f"{slug(environment.env_id)}.gif"


def draw(family: Family, environment: Environment, file: Path) -> None:
    """Draw one episode: at most :data:`FRAMES` frames, evenly spaced, shown once, the last one longest."""
    scenario, name = played(family, environment)
    agent = make_agent(name, family=family.name)
    arguments = {**family.agent_arguments(environment.env_id), **environment_arguments(agent)}
    env = gym.make(
        environment.env_id,
        scenario=scenario,
        split="test",
        render_mode="rgb_array",
        disable_env_checker=True,
        **arguments,
    )
    try:
        frames = _frames(env, agent)
    finally:
        env.close()
    # One palette for all frames keeps the file small, and colours steady.
    palette = _side_by_side(frames).quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE)
    images = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    durations = [FRAME_MS] * (len(images) - 1) + [LAST_FRAME_MS]
    unfinished = file.with_suffix(".part")
    options: dict[str, Any] = {"save_all": True, "append_images": images[1:], "optimize": True}
    images[0].save(unfinished, format="GIF", duration=durations, **options)
    unfinished.replace(file)


def _side_by_side(frames: list[Image.Image]) -> Image.Image:
    """Return an image with all colours of the frames: those of its beginning, middle and end, small."""
    width, height = frames[0].width // 2, frames[0].height // 2
    sheet = Image.new("RGB", (3 * width, height))
    for place, frame in enumerate((frames[0], frames[len(frames) // 2], frames[-1])):
        sheet.paste(frame.resize((width, height), Image.Resampling.NEAREST), (place * width, 0))
    return sheet


def _frames(env: gym.Env[Any, Any], agent: Agent) -> list[Image.Image]:
    """Play an episode and return the frames, the last decision's included."""
    length = _play(env, agent, frozenset(), [])
    wanted = frozenset(np.linspace(1, length, min(length, FRAMES)).round().astype(int).tolist())
    frames: list[Image.Image] = []
    _play(env, agent, wanted, frames)
    return frames


def _play(env: gym.Env[Any, Any], agent: Agent, wanted: frozenset[int], frames: list[Image.Image]) -> int:
    """Play the same episode, collect the wanted frames, and return the number of decisions."""
    observation, _ = env.reset(seed=0)
    agent.begin(env)
    over, step = False, 0
    while not over:
        observation, _, terminated, truncated, _ = env.step(agent.act(observation))
        over = terminated or truncated
        step += 1
        if step in wanted:
            frame = Image.fromarray(np.asarray(env.render(), np.uint8))
            frame.thumbnail(SIZE, Image.Resampling.LANCZOS)
            frames.append(frame.resize(frames[0].size) if frames else frame)
    return step
