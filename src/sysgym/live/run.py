"""Episode of several contenders side by side, simulated frame by frame."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sysgym.bench.contenders import Contender
from sysgym.bench.run.episodes import make_contender
from sysgym.envs.live import Control, LaneFrame, LiveView, Scene
from sysgym.errors import SysgymError, UnknownName
from sysgym.live.frames import Frame
from sysgym.live.pacing import DECISION_S, EPISODE_S
from sysgym.scenarios import Scenario, get_family
from sysgym.scenarios.family import load_entry

INTERVAL = "interval"
"""Key of a change of the time between frames; recorded, because it is needed to repeat a run."""

MOST_LANES = 4


class Lane:
    """Episode of one contender.

    Args:
        scenario: Resolved scenario.
        split: Split of the seed.
        contender: Contender.
        entry: Entry point of the family's live view.
        folder: Folder that the checkpoint's path is relative to.

    Attributes:
        frames: Frames that have not been taken yet.
        over: Whether the episode has ended.
        steps: Number of decisions.
        total_reward: Sum of the rewards.
        info: Info of the last decision.
    """

    def __init__(
        self,
        scenario: Mapping[str, Any],
        split: str,
        contender: Contender,
        entry: str,
        folder: Path | None = None,
    ) -> None:
        self.contender = contender
        self.env, self._agent = make_contender(scenario, split, contender, folder)
        self.view: LiveView = load_entry(entry)(self.env.unwrapped)
        self.frames: deque[LaneFrame] = deque()
        self.view.watch(self.frames.append)
        self.over, self.steps, self.total_reward = False, 0, 0.0
        self.info: dict[str, Any] = {}
        self._observation: Any = None

    def begin(self, seed: int) -> Scene:
        """Begin the episode of a seed and return its scene."""
        self.frames.clear()
        self.over, self.steps, self.total_reward = False, 0, 0.0
        self._observation, self.info = self.env.reset(seed=seed, options={"episode_seed": seed})
        self._agent.begin(self.env)
        return self.view.scene()

    def step(self) -> None:
        """Take one decision."""
        action = self._agent.act(self._observation)
        self._observation, reward, terminated, truncated, self.info = self.env.step(action)
        self.total_reward += float(reward)
        self.steps += 1
        self.over = bool(terminated or truncated)
        self.view.after_step()


class Run:
    """Episode of several contenders with the same seed, advanced in lockstep.

    The frames are determined by scenario, seed, contenders, and the changes with their positions between
    frames.

    Args:
        scenario: The scenario.
        split: Split of the seed.
        seed: Episode seed.
        contenders: One for each lane.
        folder: Folder that paths of checkpoints are relative to; None: the current folder.

    Attributes:
        header: Description of the run, for pages and recordings.
        interval: Current time between frames; 0: a frame for each decision.

    Raises:
        SysgymError: The family has no live view, or there are too many contenders.
    """

    def __init__(
        self,
        scenario: Scenario,
        split: str,
        seed: int,
        contenders: Sequence[Contender],
        folder: Path | None = None,
    ) -> None:
        family = get_family(scenario.family)
        if not family.live:
            raise SysgymError(
                f"{scenario.name}: the family {family.name} declares no live view;"
                " sysgym run --render ansi shows its episodes in the terminal"
            )
        if not 1 <= len(contenders) <= MOST_LANES:
            raise SysgymError(
                f"sysgym live: got {len(contenders)} contenders, expected 1 to {MOST_LANES}, each with -c"
            )
        self._seed = seed
        resolved = scenario.resolved()
        self.lanes = [Lane(resolved, split, contender, family.live, folder) for contender in contenders]
        self._scenes: list[Scene] = []
        self._last: list[LaneFrame] = []
        self._changes: list[tuple[int | None, str, float | str]] = []
        self._n_frames = 0
        self.interval = 0.0
        self.header: dict[str, Any] = {
            "scenario": scenario.name,
            "title": scenario.title,
            "family": scenario.family,
            "split": split,
            "seed": seed,
            "resolved": resolved,
            "contenders": [contender.to_json() for contender in contenders],
        }
        self.begin()

    def begin(self) -> None:
        """Begin or restart the episode with the settings of the scenario."""
        self._scenes = [lane.begin(self._seed) for lane in self.lanes]
        self._last, self._changes, self._n_frames = [], [], 0
        self.interval = self._scenes[0].interval
        names = [lane.contender.name for lane in self.lanes]
        parts = [lane.contender.parts for lane in self.lanes]
        in_decisions = self._scenes[0].time_unit != "s"
        self.header["episode_s"] = min(EPISODE_S, DECISION_S * self.end) if in_decisions else EPISODE_S
        self.header["lanes"] = [
            {"name": name, "parts": part, **scene.to_json()}
            for name, part, scene in zip(names, parts, self._scenes, strict=True)
        ]

    @property
    def end(self) -> float:
        """Expected time of the last frame, in the scene's unit."""
        return max(scene.end for scene in self._scenes)

    @property
    def first_interval(self) -> float:
        """Time between frames for an episode shown in half a minute; 0: a frame for each decision."""
        return self._scenes[0].interval

    def next_frame(self) -> Frame | None:
        """Simulate up to the next frame and return it; None after the last one."""
        for lane in self.lanes:
            while not lane.frames and not lane.over:
                lane.step()
        if not any(lane.frames for lane in self.lanes):
            return None
        newest = [
            lane.frames.popleft() if lane.frames else _without_events(self._last[number])
            for number, lane in enumerate(self.lanes)
        ]
        self._last = newest
        frame = Frame(
            number=self._n_frames,
            time=max(one.time for one in newest),
            lanes=tuple({"values": one.values, "events": list(map(list, one.events))} for one in newest),
            changes=tuple(self._changes),
        )
        self._n_frames += 1
        self._changes = []
        return frame

    def change(self, lane: int | None, key: str, value: float | str) -> None:
        """Change a setting of one lane or of all of them, before the next decision.

        Args:
            lane: Number of the lane, for a control that every lane has for itself; None: all lanes, for a
                common control.
            key: Key of a control, or INTERVAL.
            value: New value.

        Raises:
            UnknownName: There is no such control.
            SysgymError: The lane or the value is invalid; nothing is changed.
        """
        if key == INTERVAL:
            self._set_interval(value)
        else:
            lanes = self._lanes_of(lane, key)
            checked = [_checked(self._control(number, key), value) for number in lanes]
            for number, allowed in zip(lanes, checked, strict=True):
                self.lanes[number].view.change(key, allowed)
        self._changes.append((lane, key, value))

    def close(self) -> None:
        """Close the environments."""
        for lane in self.lanes:
            lane.env.close()

    def _set_interval(self, value: float | str) -> None:
        if not isinstance(value, int | float) or not 0.0 < value <= self.end:
            raise SysgymError(f"time between frames: got {value!r}, expected a number above 0")
        self.interval = float(value)
        for one in self.lanes:
            one.view.set_interval(self.interval)

    def _lanes_of(self, lane: int | None, key: str) -> Sequence[int]:
        if lane is None:
            if any(self._control(number, key).own for number in range(len(self.lanes))):
                raise SysgymError(
                    f"{key}: every lane has its own; expected a lane from 0 to {len(self.lanes) - 1}"
                )
            return range(len(self.lanes))
        if lane not in range(len(self.lanes)):
            raise SysgymError(f"there is no lane {lane!r}; expected 0 to {len(self.lanes) - 1}")
        if not self._control(lane, key).own:
            raise SysgymError(f"{key}: the same for all lanes, so that they can be compared")
        return [lane]

    def _control(self, lane: int, key: str) -> Control:
        controls = {control.key: control for control in self._scenes[lane].controls}
        if key not in controls:
            raise UnknownName("setting", key, controls)
        return controls[key]


def _without_events(frame: LaneFrame) -> LaneFrame:
    """Return the last frame of an ended episode without its events, which repeats in all later frames."""
    return LaneFrame(frame.time, frame.values)


def _checked(control: Control, value: float | str) -> float | str:
    """Check a value of a control and return it, rounded if the control is for integers.

    Raises:
        SysgymError: The value is of the wrong type or out of range.
    """
    if control.choices:
        if value not in control.choices:
            raise UnknownName(control.label.lower(), str(value), control.choices)
        return value
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not control.low <= value <= control.high
    ):
        raise SysgymError(
            f"{control.label}: got {value!r}, expected a number from {control.low:g} to {control.high:g}"
        )
    return round(float(value)) if control.whole else float(value)
