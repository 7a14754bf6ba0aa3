"""Pacing of frames by deadlines, and mailboxes that keep only the newest frame."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from sysgym.live.frames import Frame, after

EPISODE_S = 30.0
"""Wall time of an episode at speed 1, unless it has very few frames."""

DECISION_S = 0.7
"""Maximum wall time of a decision at speed 1, for episodes with few decisions."""

LATE_S = 0.25
"""Delay beyond which the lost time is not made up for: the machine is too slow for this speed."""

SLOWEST, FASTEST = 1 / 64, 64.0
"""Range of speeds."""


class Pacer:
    """Deadlines of frames in wall time.

    Deadlines follow from the time of the first frame, so that delays do not add up.

    Args:
        end: Time of the last frame, in the scene's unit.
        episode_s: Wall time of an episode at speed 1.
        clock: Clock in seconds.

    Attributes:
        speed: Speed; at 1, an episode takes ``episode_s``.
        late: Whether the last frame was more than LATE_S late.
    """

    def __init__(
        self, end: float, episode_s: float = EPISODE_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._end, self._episode_s, self._clock = end, episode_s, clock
        self.speed, self.late = 1.0, False
        self._from: tuple[float, float] | None = None  # wall time and frame time that deadlines count from

    def restart(self) -> None:
        """Count deadlines from the next frame on, after a pause or a change of speed."""
        self._from = None

    def wait_s(self, frame_time: float) -> float:
        """Return the time until a frame is due, s; 0 if it is late."""
        now_s = self._clock()
        if self._from is None:
            self._from = (now_s, frame_time)
        began_s, began = self._from
        due_s = began_s + (frame_time - began) / self._end * self._episode_s / self.speed
        self.late = now_s - due_s > LATE_S
        if self.late:
            self._from = (now_s, frame_time)
        return max(due_s - now_s, 0.0)


class Mailbox:
    """Messages for one browser: the newest message of each kind.

    A new frame includes the events of the waiting frame that it replaces. The sender never waits, so that a
    slow browser receives fewer frames.

    Args:
        notify: Callback for new messages, called from the sender's thread.
    """

    def __init__(self, notify: Callable[[], None] = lambda: None) -> None:
        self._notify = notify
        self._lock = threading.Lock()
        self._frame: Frame | None = None
        self._messages: dict[str, dict[str, Any]] = {}
        self.replaced = 0

    def put_frame(self, frame: Frame) -> None:
        """Replace the waiting frame, and include its events in the new frame."""
        with self._lock:
            self.replaced += self._frame is not None
            self._frame = after(self._frame, frame)
        self._notify()

    def put(self, message: dict[str, Any]) -> None:
        """Replace the waiting message of the same kind; a header replaces all messages.

        Args:
            message: Message; its first key is its kind.
        """
        kind = next(iter(message))
        with self._lock:
            if kind == "header":
                self._frame = None
                self._messages.clear()
            self._messages[kind] = message
        self._notify()

    def take(self) -> list[dict[str, Any]]:
        """Return and remove all messages, the frame last."""
        with self._lock:
            messages, self._messages = list(self._messages.values()), {}
            frame, self._frame = self._frame, None
        return messages if frame is None else [*messages, {"frame": frame.to_json()}]
