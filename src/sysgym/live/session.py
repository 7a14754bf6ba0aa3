"""Session of a live run: a thread that simulates, executes commands and sends frames to mailboxes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any

from sysgym.errors import SysgymError
from sysgym.live.frames import Frame, thinned
from sysgym.live.pacing import FASTEST, SLOWEST, Mailbox, Pacer
from sysgym.live.recording import Recorder
from sysgym.live.run import INTERVAL, Run

MOST_HISTORY = 20_000
"""Maximum number of frames kept for browsers that connect later; a longer history is thinned to a third."""

MOST_SENT = 1_500
"""Maximum number of frames of the history that are sent to a new browser."""

LEAST_FRAMES = 50
"""Minimum number of frames of an episode, at any speed."""

Command = Mapping[str, Any]


class Session:
    """Live run in a thread of its own.

    Only this thread advances and changes the run. Commands are dictionaries: ``{"do": "pause"}``, ``"play"``,
    ``"step"``, ``"restart"``, ``{"do": "speed", "value": 2}``, ``{"do": "run_to", "time": 0.05}`` or
    ``{"do": "change", "lane": None, "key": ..., "value": ...}``.

    Args:
        run: The run, at its beginning.
        speed: Initial speed, see :class:`~sysgym.live.pacing.Pacer`.
        recorder: Recorder of all frames and changes; None: the run is not recorded.
        paused: Whether the run waits for a command before it begins.
    """

    def __init__(
        self, run: Run, *, speed: float = 1.0, recorder: Recorder | None = None, paused: bool = False
    ) -> None:
        self._run, self._recorder = run, recorder
        self._pacer = Pacer(run.end, run.header["episode_s"])
        self._pacer.speed = speed
        self._paused, self._over, self._steps = paused, False, 0
        self._fast_until: float | None = None
        self._commands: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._mailboxes: list[Mailbox] = []
        self._history: list[Frame] = []
        self._lock = threading.Lock()  # for mailboxes, history and status, which other threads read
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._main, name="sysgym-live", daemon=True)
        self._on_end: Callable[[], object] = lambda: None

    def start(self, on_failure: Callable[[], object] = lambda: None) -> None:
        """Start the thread; ``on_failure`` is called from it if the simulation fails."""
        self._on_end = on_failure
        self._thread.start()

    def stop(self) -> None:
        """End the thread and complete the recording.

        Raises:
            BaseException: The exception that ended the simulation, if there was one.
        """
        self._stop.set()
        self._commands.put(None)
        self._thread.join()
        self._run.close()
        if self._recorder is not None:
            self._recorder.close()
        if self._failure is not None:
            raise self._failure

    def command(self, command: Command) -> None:
        """Queue a command; responses, if any, are sent to the mailboxes."""
        self._commands.put(command)

    def join(self, mailbox: Mailbox) -> None:
        """Add a mailbox, and send it the history of the run first."""
        with self._lock:
            mailbox.put({"header": self._header()})
            frames = thinned(self._history, MOST_SENT)
            mailbox.put({"history": [frame.to_json() for frame in frames]})
            mailbox.put({"status": self._status()})
            self._mailboxes.append(mailbox)

    def leave(self, mailbox: Mailbox) -> None:
        """Remove a mailbox; nothing more is sent to it."""
        with self._lock:
            self._mailboxes.remove(mailbox)

    @property
    def frames(self) -> list[Frame]:
        """Frames so far."""
        with self._lock:
            return list(self._history)

    @property
    def header(self) -> dict[str, Any]:
        """Description of the run."""
        with self._lock:
            return dict(self._run.header)

    def _header(self) -> dict[str, Any]:
        return {key: value for key, value in self._run.header.items() if key != "resolved"}

    def _status(self) -> dict[str, Any]:
        return {
            "paused": self._paused or self._over,
            "over": self._over,
            "speed": self._pacer.speed,
            "late": self._pacer.late,
        }

    def _main(self) -> None:
        try:
            self._adapt_interval()
            while self._take_commands():
                self._advance()
        except BaseException as failure:  # raised in the thread that stops the session
            self._failure = failure
            self._tell({"error": f"the simulation ended: {failure}"})
            self._on_end()

    def _advance(self) -> None:
        """Show the next frame when it is due."""
        frame = self._run.next_frame()
        if frame is None:
            self._over = True
            self._tell_status()
            return
        late = self._pacer.late
        if self._steps > 0:
            self._steps -= 1
            self._pacer.restart()
        elif self._fast_until is not None:
            self._pacer.restart()
        else:
            self._wait(self._pacer.wait_s(frame.time))
        self._show(frame)
        if self._fast_until is not None and frame.time >= self._fast_until:
            self._fast_until = None
        if self._pacer.late != late:
            self._tell_status()

    def _show(self, frame: Frame) -> None:
        if self._recorder is not None:
            self._recorder.add(frame)
        with self._lock:
            self._history.append(frame)
            if len(self._history) > MOST_HISTORY:
                self._history = thinned(self._history, MOST_HISTORY // 2)
            for mailbox in self._mailboxes:
                mailbox.put_frame(frame)

    def _wait(self, wait_s: float) -> None:
        """Wait; commands that arrive meanwhile are executed after the frame that is due."""
        if wait_s > 0.0:
            self._stop.wait(wait_s)

    def _take_commands(self) -> bool:
        """Execute all waiting commands, and wait for more while paused; return False after :meth:`stop`."""
        while True:
            idle = self._over or (self._paused and self._steps == 0 and self._fast_until is None)
            try:
                command = self._commands.get(block=idle)
            except queue.Empty:
                return True
            if command is None:
                return False
            try:
                self._carry_out(command)
            except SysgymError as error:
                self._tell({"error": str(error)})
            self._tell_status()

    def _carry_out(self, command: Command) -> None:
        action = command.get("do")
        if action in ("pause", "play"):
            self._paused = action == "pause"
            self._fast_until = None
            self._pacer.restart()
        elif action == "step":
            self._paused = True
            self._steps = min(self._steps + 1, 10)
        elif action == "speed":
            self._pacer.speed = min(max(_number(command, "value"), SLOWEST), FASTEST)
            self._pacer.restart()
            self._adapt_interval()
        elif action == "run_to":
            self._fast_until = _number(command, "time")
        elif action == "change":
            lane, key, value = command.get("lane"), command.get("key"), command.get("value")
            if not (lane is None or type(lane) is int) or not isinstance(key, str) or key == INTERVAL:
                raise SysgymError(f"change: got {dict(command)!r}, expected a lane, a key and a value")
            if not isinstance(value, int | float | str):
                raise SysgymError(f"{key}: got {value!r}, expected a number or a name")
            self._run.change(lane, key, value)
        elif action == "restart":
            self._restart()
        else:
            raise SysgymError(
                f"got the command {action!r}; expected pause, play, step, speed, run_to, change or restart"
            )

    def _restart(self) -> None:
        with self._lock:
            self._run.begin()
            self._history.clear()
            if self._recorder is not None:
                self._recorder.begin(self._run.header)
            for mailbox in self._mailboxes:
                mailbox.put({"header": self._header()})
        self._over, self._paused, self._steps, self._fast_until = False, False, 0, None
        self._pacer.restart()
        self._adapt_interval()

    def _adapt_interval(self) -> None:
        """Adapt the time between frames to the speed, so that the frame rate in wall time stays the same."""
        wanted = min(self._run.first_interval * self._pacer.speed, self._run.end / LEAST_FRAMES)
        if wanted and wanted != self._run.interval:
            self._run.change(None, INTERVAL, wanted)

    def _tell(self, message: dict[str, Any]) -> None:
        with self._lock:
            for mailbox in self._mailboxes:
                mailbox.put(message)

    def _tell_status(self) -> None:
        self._tell({"status": self._status()})


def _number(command: Command, key: str) -> float:
    value = command.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 < value < 1e12:
        raise SysgymError(f"{command.get('do')}: got {key} = {value!r}, expected a number above 0")
    return float(value)
