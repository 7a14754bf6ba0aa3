"""Update the golden traces, which are the results of seeded episodes, number by number.

python scripts/update_golden.py
python scripts/update_golden.py incast-256      # of these scenarios alone

Run it after an intended change of results, and record it in the CHANGELOG under "Environment changes". A diff
of these files shows such a change; other changes must not need an update.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

import sysgym
from sysgym.scenarios import StragglerScenario, list_scenarios, load_scenario

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "envs" / "golden"
REGISTERED = sysgym.__version__
STEPS = 20
EPISODE_SEED = 20_001

# Congestion: every scenario under rates from outside and under DCTCP; the other laws, and the other way to
# detect losses, where recovery has the most to do.
EVERYWHERE = ("paced", "dctcp")
BY_DUPLICATES = "-dupack"
UNDER_LOSS = (
    "incast-32",
    ("reno", "cubic", "newvegas", *(law + BY_DUPLICATES for law in ("paced", "dctcp", "reno", "cubic"))),
)
# One flow: every scenario by its own preset, and the smallest by the others.
FLOW = "flow"
FLOW_PRESETS = ("flow-1g-1ms", ("flow-aurora", "flow-orca"))
# Stragglers: every scenario of generated jobs in both environments. Traces are not shipped.
STRAGGLERS = {
    "prediction": "sysgym/StragglerPrediction-v0",
    "mitigation": "sysgym/StragglerMitigation-v0",
}
# Placement: every scenario in its own environment, some short episodes in a row.
PLACEMENT = {
    "placement": "sysgym/CollectivePlacement-v0",
    "program": "sysgym/ReductionProgram-v0",
    "joint": "sysgym/JointPlacement-v0",
    "jobs": "sysgym/MultiJobPlacement-v0",
}
# Collectives: every scenario, some short episodes in a row.
COLLECTIVES = "synthesis"
# Compression: every scenario, the first decisions and the end of two episodes.
COMPRESSION = "methods"
# Bursts: every scenario in its own environment, the first decisions and the end of two episodes.
BURSTS = "bursts"
# Tuning: every scenario, some short episodes in a row.
TUNING = "changes"
# Diagnosis: every scenario, some short episodes in a row.
DIAGNOSIS = "questions"
# Pipelines: every scenario, some short episodes in a row.
PIPELINES = "stages"
# Fail-slow faults: every scenario, the first decisions and the end of two episodes.
FAILSLOW = "faults"
PLACEMENT_EPISODES = 5
MEASUREMENTS = 6


class Episode(NamedTuple):
    """What is played: a scenario under a transport, or in an environment of another family."""

    scenario: str
    variant: str

    @property
    def path(self) -> Path:
        """Where its trace lies."""
        return FOLDER / f"{self.scenario}-{self.variant}.json"


def episodes() -> Iterator[Episode]:
    """Yield the episodes that have a trace."""
    for info in list_scenarios():
        if info.env_id == "sysgym/FlowCC-v0":
            yield Episode(info.name, FLOW)
        elif info.family == "congestion":
            yield from (Episode(info.name, transport) for transport in EVERYWHERE)
        elif info.family == "collectives":
            yield Episode(info.name, COLLECTIVES)
        elif info.family == "compression":
            yield Episode(info.name, COMPRESSION)
        elif info.family == "tuning":
            yield Episode(info.name, TUNING)
        elif info.family == "diagnosis":
            yield Episode(info.name, DIAGNOSIS)
        elif info.family == "pipelines":
            yield Episode(info.name, PIPELINES)
        elif info.family == "failslow":
            yield Episode(info.name, FAILSLOW)
        elif info.family == "bursts":
            yield Episode(info.name, BURSTS)
        elif info.family == "placement":
            env_id = load_scenario(info.name).env_id
            yield from (Episode(info.name, variant) for variant, own in PLACEMENT.items() if own == env_id)
        elif load_scenario(info.name, expect=StragglerScenario).jobs.kind == "generated":
            yield from (Episode(info.name, variant) for variant in STRAGGLERS)
    for scenario, variants in (UNDER_LOSS, FLOW_PRESETS):
        yield from (Episode(scenario, variant) for variant in variants)


def trace(episode: Episode) -> list[dict[str, int | float]]:
    """Play an episode; returns a record for the reset and one for each step.

    Counters are whole numbers and have to be equal; sums of floats may differ in the last bits on other
    processors.
    """
    if episode.variant in STRAGGLERS:
        return straggler_trace(episode)
    if episode.variant in PLACEMENT:
        return placement_trace(episode)
    if episode.variant in (COLLECTIVES, TUNING, DIAGNOSIS, PIPELINES):
        return masked_trace(episode)
    if episode.variant in (COMPRESSION, BURSTS, FAILSLOW):
        return discrete_trace(episode)
    if episode.variant.startswith(FLOW):
        return flow_trace(episode)
    transport = episode.variant.removesuffix(BY_DUPLICATES)
    env: Any = gym.make(
        "sysgym/DatacenterCC-v0",
        scenario=episode.scenario,
        overrides={"transport.loss_detection": "rack" if transport == episode.variant else "dupack"},
        split="test",
        transport=transport,
        action_scale="native",
    ).unwrapped
    observation, _ = env.reset(seed=0, options={"episode_seed": EPISODE_SEED})
    records = [record(env, observation, 0.0)]
    hosts = np.arange(env.action_space.shape[0])
    low, high = env.action_space.low, env.action_space.high
    for step in range(STEPS):
        # Rates that differ between hosts and decisions; a transport of its own is left alone.
        share = ((7 * hosts + 3 * step) % 11) / 10 if transport == "paced" else np.ones(len(hosts))
        observation, reward, *_ = env.step((low + share * (high - low)).astype(np.float32))
        records.append(record(env, observation, reward))
    return records


def flow_trace(episode: Episode) -> list[dict[str, int | float]]:
    """Play an episode of one flow; as :func:`trace`."""
    preset = episode.variant.partition("-")[2] or None
    env: Any = gym.make(
        "sysgym/FlowCC-v0", scenario=episode.scenario, split="test", preset=preset, action_scale="native"
    ).unwrapped
    observation, _ = env.reset(seed=0, options={"episode_seed": EPISODE_SEED})
    records = [record(env, observation, 0.0)]
    for step in range(STEPS):
        # Up and down by turns, more up than down: it ends in a full queue.
        share = ((7 * step) % 11 - 4) / 6
        observation, reward, *_ = env.step((share * env.action_space.high).astype(np.float32))
        records.append(record(env, observation, reward))
    return records


def record(env: Any, observation: Any, reward: float) -> dict[str, int | float]:
    """Return what is compared after one decision."""
    ports, hosts = env.network.ports(), env.network.hosts()
    values = np.asarray(observation, dtype=np.float64)
    return {
        "packet_hops": int(env.network.packet_hops),
        "delivered_bytes": int(hosts.delivered_bytes.sum()),
        "retransmitted_packets": int(hosts.retransmitted_packets.sum()),
        "queue_bytes": int(ports.queue_bytes.sum()),
        "marked_packets": int(ports.marked_packets.sum()),
        "dropped_packets": int(ports.dropped_packets.sum()),
        "reward": float(reward),
        "observation_sum": float(values.sum()),
        # Weighted by place, so that values which swap places are seen too.
        "observation_by_place": float(values @ np.arange(1, len(values) + 1)) / len(values),
    }


def straggler_trace(episode: Episode) -> list[dict[str, int | float]]:
    """Play an episode in a straggler environment; as :func:`trace`."""
    env: Any = gym.make(STRAGGLERS[episode.variant], scenario=episode.scenario, split="test").unwrapped
    observation, info = env.reset(seed=0, options={"episode_seed": EPISODE_SEED})
    records = [straggler_record(observation, 0.0, info)]
    tasks = np.arange(env.action_space.shape[0])
    for step in range(STEPS):
        # One task in eleven, another one at each decision; relaunches and copies by turns.
        action = ((tasks + 3 * step) % 11 == 0) * (1 if episode.variant == "prediction" else 1 + step % 2)
        observation, reward, over, _, info = env.step(action.astype(np.int8))
        records.append(straggler_record(observation, reward, info))
        if over:
            break
    return records


def straggler_record(observation: Any, reward: float, info: dict[str, Any]) -> dict[str, int | float]:
    """Return what is compared after one decision: counts, times, and sums of what was seen."""
    times = {"time_s": float(info["time_s"]), "reward": float(reward)}
    return {**counts_and_times(info), **times, **sums_of(observation)}


def counts_and_times(info: dict[str, Any]) -> dict[str, int | float]:
    """Return the metrics of a decision, counts as whole numbers."""
    return {name: value if name.endswith("_s") else int(value) for name, value in info["metrics"].items()}


def sums_of(observation: Any) -> dict[str, float]:
    """Return the sum of each part of an observation."""
    return {f"{key}_sum": float(part.astype(np.float64).sum()) for key, part in observation.items()}


def placement_trace(episode: Episode) -> list[dict[str, int | float]]:
    """Play episodes in an environment of the placement family; as :func:`trace`."""
    env: Any = gym.make(PLACEMENT[episode.variant], scenario=episode.scenario, split="test").unwrapped
    records = []
    for number in range(PLACEMENT_EPISODES):
        observation, info = env.reset(seed=0, options={"episode_seed": EPISODE_SEED + number})
        records.append(placement_record(observation, 0.0, info))
        over, step = False, 0
        while not over:
            allowed = env.action_masks().nonzero()[0]
            # Candidates are measured, some of them twice, and then one is chosen.
            if episode.variant == "joint" and step < MEASUREMENTS:
                allowed = allowed[: len(allowed) // 2][:4]
            action = allowed[(5 * number + 3 * step) % len(allowed)]
            observation, reward, over, _, info = env.step(action)
            records.append(placement_record(observation, reward, info))
            step += 1
    return records


def placement_record(observation: Any, reward: float, info: dict[str, Any]) -> dict[str, int | float]:
    """Return what is compared after one decision; at the end of an episode its metrics too."""
    ended = {f"episode_{name}": value for name, value in info.get("episode_metrics", {}).items()}
    return {**counts_and_times(info), "reward": float(reward), **sums_of(observation), **ended}


def masked_trace(episode: Episode) -> list[dict[str, int | float]]:
    """Play episodes in the scenario's own environment; records of the first steps and the last."""
    env_id = load_scenario(episode.scenario).env_id
    env: Any = gym.make(env_id, scenario=episode.scenario, split="test").unwrapped
    records = []
    for number in range(2):
        observation, info = env.reset(seed=0, options={"episode_seed": EPISODE_SEED + number})
        records.append(placement_record(observation, 0.0, info))
        over, step = False, 0
        while not over:
            # Mostly early candidates, so that links are shared; some late ones.
            allowed = env.action_masks().nonzero()[0]
            action = allowed[(step * step) % min(len(allowed), 5)]
            observation, reward, over, _, info = env.step(action)
            step += 1
            if over or step <= STEPS:
                records.append(placement_record(observation, reward, info))
    return records


def discrete_trace(episode: Episode) -> list[dict[str, int | float]]:
    """Play episodes in the scenario's own environment; records of the first steps and the last."""
    env_id = load_scenario(episode.scenario).env_id
    env: Any = gym.make(env_id, scenario=episode.scenario, split="test").unwrapped
    records = []
    for number in range(2):
        observation, info = env.reset(seed=0, options={"episode_seed": EPISODE_SEED + number})
        records.append(discrete_record(observation, 0.0, info))
        over, step = False, 0
        while not over:
            # Every action, some of them several times in a row.
            observation, reward, ended, truncated, info = env.step((step * step) % 11 % env.action_space.n)
            step, over = step + 1, ended or truncated
            if over or step <= STEPS:
                records.append(discrete_record(observation, reward, info))
    return records


def discrete_record(observation: Any, reward: float, info: dict[str, Any]) -> dict[str, int | float]:
    """Return what is compared after one decision; at the end of an episode its metrics too."""
    values = np.asarray(observation, dtype=np.float64)
    ended = {f"episode_{name}": value for name, value in info.get("episode_metrics", {}).items()}
    return {
        **{name: float(value) for name, value in info["metrics"].items()},
        "reward": float(reward),
        "observation_sum": float(values.sum()),
        "observation_by_place": float(values @ np.arange(1, len(values) + 1)) / len(values),
        **ended,
    }


def main() -> None:
    """Write every trace, or those of given scenarios, and remove those of episodes that are no more."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenarios", nargs="*")
    only = parser.parse_args().scenarios
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = {episode.path: episode for episode in episodes()}
    for path in sorted(set(FOLDER.glob("*.json")) - set(wanted)):
        path.unlink()
    for path, episode in wanted.items():
        if only and episode.scenario not in only:
            continue
        lines = ",\n".join(json.dumps(one) for one in trace(episode))
        path.write_text(f"[\n{lines}\n]\n")
        print(path.relative_to(FOLDER.parent.parent.parent))


if __name__ == "__main__":
    main()
