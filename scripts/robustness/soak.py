"""Soak test: every environment is made, reset, stepped, copied and closed for hours; memory must not grow.

    python scripts/robustness/soak.py               # an hour, every registered id
    python scripts/robustness/soak.py --minutes 0.3

Each round tests all ids in turn: an environment is made, a seeded episode is run twice and must give the same
numbers, a copy must continue like the original, wrong calls must be refused, and two worlds are run
alternately. A failure is printed and counted, and the test continues. Memory is read at the end of every
round; over the second half of the rounds it must not grow. The last lines have the numbers of cases tried,
passed and failed; the exit status is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import copy
import gc
import hashlib
import resource
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import sysgym
from sysgym.registration import ENVIRONMENTS

REGISTERED = sysgym.__version__

WORLDS: dict[str, list[dict[str, Any]]] = {
    "sysgym/DatacenterCC-v0": [
        {"scenario": "iroko-dumbbell-10m"},
        {"scenario": "incast-32", "transport": "dctcp"},
        {"scenario": "fattree-k4-websearch", "transport": "bbr", "history": 2},
        {"scenario": "leafspine-link-failure", "action_scale": "native"},
    ],
    "sysgym/FlowCC-v0": [
        {"scenario": "flow-1g-1ms"},
        {"scenario": "aurora-links"},
        {"scenario": "flow-incast", "preset": "orca"},
    ],
}
"""What is played of an id, in turns; of the others, their default scenario."""

ALLOWED_GROWTH = 0.05
"""Of the memory in the middle of the soak: what an allocator may hold on to."""

MIB = 2.0**20


@dataclass
class Soak:
    """What happened so far.

    Attributes:
        tried: What was tried, by name.
        failed: What failed of it.
        steps: Decisions taken, in all worlds together.
        resets: Episodes begun.
        memory_mib: Resident memory after every round.
    """

    tried: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    resets: int = 0
    memory_mib: list[float] = field(default_factory=list)

    def attempt(self, name: str, work: Callable[[], None]) -> None:
        """Do something that must not fail; count it."""
        self.tried[name] += 1
        try:
            work()
        except Exception:  # whatever it is, it is counted and told of
            self.failed[name] += 1
            print(f"FAILED: {name}\n{traceback.format_exc()}", file=sys.stderr, flush=True)

    def growth(self) -> float:
        """Return how much memory grew from the middle of the soak to its end, over that of the middle."""
        half = self.memory_mib[len(self.memory_mib) // 2 :]
        return max(half) / half[0] - 1.0 if half else 0.0

    def report(self) -> str:
        """Return a table of what was tried, passed and failed."""
        lines = [f"{'':52} {'tried':>9} {'passed':>9} {'failed':>9}"]
        for name in sorted(self.tried):
            tried, failed = self.tried[name], self.failed[name]
            lines.append(f"{name:52} {tried:9} {tried - failed:9} {failed:9}")
        tried, failed = self.tried.total(), self.failed.total()
        lines.append(f"{'in all':52} {tried:9} {tried - failed:9} {failed:9}")
        return "\n".join(lines)


def resident_mib() -> float:
    """Return the memory of this process now; where the system does not tell, the most it ever was."""
    gc.collect()
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize() / MIB
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / MIB if sys.platform == "darwin" else most / 1024.0


def draw(env: Any, info: dict[str, Any]) -> Any:
    """Return an action that is allowed."""
    mask = info.get("action_mask")
    return env.action_space.sample() if mask is None else env.action_space.sample(mask)


def arrays(value: Any) -> Iterator[Any]:
    """Yield all arrays and numbers of a value, however deep."""
    if isinstance(value, dict):
        for key in sorted(value):
            yield from arrays(value[key])
    else:
        yield np.asarray(value)


def digest(*values: Any) -> str:
    """Hash every bit of some values."""
    sha = hashlib.sha256()
    for value in values:
        for array in arrays(value):
            sha.update(array.tobytes())
    return sha.hexdigest()


def begin(env: Any, seed: int, soak: Soak) -> tuple[Any, dict[str, Any]]:
    """Begin an episode; returns observation and info."""
    soak.resets += 1
    observation, info = env.reset(seed=seed)
    return observation, info


def play(env: Any, seed: int, soak: Soak) -> str:
    """Play a seeded episode of random actions to its end; returns what it came to."""
    observation, info = begin(env, seed, soak)
    env.action_space.seed(seed)
    seen, over = [digest(observation)], False
    while not over:
        observation, reward, terminated, truncated, info = env.step(draw(env, info))
        soak.steps += 1
        over = terminated or truncated
        seen.append(digest(observation, reward))
    if "episode_metrics" not in info:
        raise AssertionError("the last step has no episode_metrics")
    return "".join(seen)


def episodes(env: Any, seed: int, soak: Soak) -> None:
    """Play an episode twice."""
    if play(env, seed, soak) != play(env, seed, soak):
        raise AssertionError(f"seed {seed}: two episodes of one seed differ")


def copies(env: Any, seed: int, soak: Soak) -> None:
    """Let a copy and its original go on side by side."""
    _, info = begin(env, seed, soak)
    twin = copy.deepcopy(env)
    over = False
    for _ in range(20):
        action = draw(env, info)
        ours, theirs = env.step(action), twin.step(action)
        soak.steps += 2
        if digest(*ours[:2]) != digest(*theirs[:2]):
            raise AssertionError(f"seed {seed}: a copy went another way")
        info, over = ours[4], ours[2] or ours[3]
        if over:
            break
    twin.close()


def wrong_calls(env: Any, seed: int, soak: Soak) -> None:
    """Check that what is wrong is refused, and that the episode goes on."""
    _, info = begin(env, seed, soak)
    for action in ("fast", None, np.full(3, np.nan)):
        try:
            env.step(action)
        except sysgym.SysgymError:
            continue
        raise AssertionError(f"the action {action!r} was taken")
    env.step(draw(env, info))
    env.close()
    env.close()
    for call in (env.reset, lambda: env.step(None)):
        try:
            call()
        except gym.error.ClosedEnvironmentError:
            continue
        raise AssertionError("a closed environment was used")


def side_by_side(env_id: str, arguments: dict[str, Any], seed: int, soak: Soak) -> None:
    """Play two worlds in their vector form, or Gymnasium's."""
    vector = gym.make_vec(env_id, num_envs=2, **arguments)
    try:
        _, infos = begin(vector, seed, soak)
        vector.action_space.seed(seed)
        for _ in range(20):
            masks = infos.get("action_mask")
            actions = vector.action_space.sample(None if masks is None else tuple(masks))
            infos = vector.step(actions)[4]
            soak.steps += 2
    finally:
        vector.close()


def soak_round(soak: Soak, number: int, until_s: float) -> None:
    """Take every id once, until time is up."""
    for env_id in ENVIRONMENTS:
        if time.monotonic() > until_s and number > 0:
            return
        worlds = WORLDS.get(env_id, [{}])
        soak_world(soak, env_id, worlds[number % len(worlds)], number)


def soak_world(soak: Soak, env_id: str, arguments: dict[str, Any], seed: int) -> None:
    """Do everything once with an environment."""
    made: list[Any] = []
    soak.attempt(f"{env_id} made", lambda: made.append(gym.make(env_id, **arguments)))
    for env in made:
        soak.attempt(f"{env_id} episodes", partial(episodes, env, seed, soak))
        soak.attempt(f"{env_id} copies", partial(copies, env, seed, soak))
        soak.attempt(f"{env_id} wrong calls", partial(wrong_calls, env, seed, soak))
        soak.attempt(f"{env_id} side by side", lambda: side_by_side(env_id, arguments, seed, soak))


def run(minutes: float) -> Soak:
    """Soak for some minutes; all ids are taken once at least."""
    soak, began_s, number = Soak(), time.monotonic(), 0
    until_s = began_s + 60.0 * minutes
    while number == 0 or time.monotonic() < until_s:
        soak_round(soak, number, until_s)
        soak.memory_mib.append(resident_mib())
        number += 1
        if number in (1, 2, 5) or number % 10 == 0:
            elapsed_min = (time.monotonic() - began_s) / 60.0
            print(
                f"{elapsed_min:6.1f} min  {number} rounds  {soak.steps} steps  {soak.memory_mib[-1]:.0f} MiB"
                f"  {soak.failed.total()} failed",
                flush=True,
            )
    return soak


def main() -> None:
    """Soak, and say what was tried, passed and failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="how long (default: an hour)")
    soak = run(parser.parse_args().minutes)
    # The first rounds compile and fill caches; a handful of them says nothing about growth.
    growth, enough = soak.growth(), len(soak.memory_mib) >= 20
    print(soak.report())
    told = f"{growth:+.1%} over the second half" if enough else "too short to judge its growth"
    print(f"{soak.steps} steps, {soak.resets} resets, {len(soak.memory_mib)} rounds")
    print(f"memory {soak.memory_mib[-1]:.0f} MiB, {told}")
    sys.exit(bool(soak.failed) or (enough and growth > ALLOWED_GROWTH))


if __name__ == "__main__":
    main()
