"""Queues of a congestion scenario: limits, marks, shared memory, flow control, classes and trimming."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from sysgym.scenarios.errors import NOTHING, Problem
from sysgym.scenarios.schema.later_keys import GrownTable
from sysgym.scenarios.schema.tables import FromList

MOST_CLASSES = 8
"""Largest number of classes of a port, as in IEEE 802.1Q."""


class Queue(GrownTable):
    """FIFO queues, limited in bytes, with marking above a step threshold or at random."""

    LATER: ClassVar[Mapping[str, Any]] = {
        "shared_buffer_bytes": None,
        "shared_buffer_alpha": None,
        "classes": 1,
        "scheduler": "strict",
        "weights": None,
        "class_buffer_bytes": None,
        "class_ecn_threshold_bytes": None,
        "ack_class": None,
        "pfc_classes": None,
        "trim": False,
    }

    buffer_bytes: Annotated[int, Field(ge=1500, le=2**40)] = Field(
        description="buffer of every switch port, bytes"
    )
    ecn_threshold_bytes: Annotated[int, Field(ge=0, le=2**40)] | None = Field(
        default=None,
        description="marking threshold (ECN): packets that find more bytes in the queue are marked;"
        " absent: no marking",
    )
    discipline: Literal["fifo", "red"] = Field(
        default="fifo",
        description=(
            "fifo: tail drop and, if there is a threshold, a step mark; red: random early detection"
            " (Floyd and Jacobson, 1993), read with the keys red_..."
        ),
    )
    red_min_bytes: Annotated[int, Field(ge=0, le=2**40)] | None = Field(
        default=None, description="red: no packet is marked while the average queue is below this, bytes"
    )
    red_max_bytes: Annotated[int, Field(ge=1, le=2**40)] | None = Field(
        default=None, description="red: average queue at which red_max_probability is reached, bytes"
    )
    red_max_probability: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        default=0.1, description="red: probability of a mark at red_max_bytes"
    )
    red_gentle: bool = Field(
        default=True,
        description="red: whether the probability rises to 1 between red_max_bytes and twice that value;"
        " otherwise it jumps to 1 at red_max_bytes",
    )
    red_weight: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        default=0.002, description="red: weight of a new sample in the average queue; 1: the queue itself"
    )
    red_action: Literal["mark", "drop"] = Field(
        default="mark",
        description="red: mark packets of ECN-capable flows and let the others pass, or drop packets of"
        " all flows",
    )
    pfc_pause_bytes: Annotated[int, Field(ge=1500, le=2**40)] | None = Field(
        default=None,
        description=(
            "priority flow control (IEEE 802.1Qbb): a switch that holds more bytes than this from one link"
            " asks the sender at its other end to pause; absent: no flow control. buffer_bytes is then the"
            " buffer for the packets from each link"
        ),
    )
    pfc_resume_bytes: Annotated[int, Field(ge=0, le=2**40)] | None = Field(
        default=None,
        description="a paused link resumes when the switch holds fewer bytes than this from it; absent:"
        " half of pfc_pause_bytes",
    )

    shared_buffer_bytes: Annotated[int, Field(ge=1500, le=2**40)] | None = Field(
        default=None,
        description=(
            "memory shared by all ports of a switch, bytes; absent: every port has its own buffer. With"
            " shared memory, buffer_bytes is the most that one port may use"
        ),
    )
    shared_buffer_alpha: Annotated[float, Field(gt=0.0, le=1024.0)] | None = Field(
        default=None,
        description=(
            "a port accepts a packet while its queue is at most this many times the free memory (dynamic"
            " thresholds, Choudhury and Hahne, 1998); absent: 1"
        ),
    )

    classes: Annotated[int, Field(ge=1, le=MOST_CLASSES)] = Field(
        default=1,
        description=(
            "number of queues of every port, one for each class of packets; a higher number means a higher"
            " priority. Each queue may hold buffer_bytes"
        ),
    )
    scheduler: Literal["strict", "wrr"] = Field(
        default="strict",
        description=(
            "strict: a class is served when all higher ones are empty; wrr: all classes are served in"
            " turn, in proportion to their weights (deficit round robin, Shreedhar and Varghese, 1996)"
        ),
    )
    weights: Annotated[tuple[Annotated[float, Field(ge=0.01, le=100.0)], ...], FromList] | None = Field(
        default=None,
        description=(
            "wrr: number of full packets that a class may send in its turn, lowest class first; absent: 1"
            " for each"
        ),
    )
    class_buffer_bytes: Annotated[tuple[Annotated[int, Field(ge=64, le=2**40)], ...], FromList] | None = (
        Field(
            default=None,
            description="buffer of each class, lowest first, bytes; absent: buffer_bytes for each",
        )
    )
    class_ecn_threshold_bytes: (
        Annotated[tuple[Annotated[int, Field(ge=0, le=2**40)], ...], FromList] | None
    ) = Field(
        default=None,
        description="marking threshold of each class, lowest first, bytes; absent: ecn_threshold_bytes",
    )
    ack_class: Annotated[int, Field(ge=0, lt=MOST_CLASSES)] | None = Field(
        default=None, description="class of ACKs; absent: the class of the acknowledged data"
    )
    pfc_classes: (
        Annotated[tuple[Annotated[int, Field(ge=0, lt=MOST_CLASSES)], ...], FromList, Field(min_length=1)]
        | None
    ) = Field(
        default=None,
        description=(
            "classes that flow control pauses individually, so that they lose no packets; absent: all"
        ),
    )
    trim: bool = Field(
        default=False,
        description=(
            "whether a data packet that finds no room is trimmed to its header, which continues in the"
            " highest class, and the receiver informs the sender (NDP, SIGCOMM 2017); otherwise the packet"
            " is dropped"
        ),
    )

    @property
    def is_list(self) -> bool:
        """Whether departures are scheduled packet by packet, because queues can be paused or overtaken."""
        return self.classes > 1 or self.pfc_pause_bytes is not None

    @property
    def shares(self) -> tuple[float, ...]:
        """Weights of the classes, default applied."""
        return (1.0,) * self.classes if self.weights is None else self.weights

    @property
    def lossless_classes(self) -> tuple[int, ...]:
        """Classes that flow control protects, default applied; none without it."""
        if self.pfc_pause_bytes is None:
            return ()
        return tuple(range(self.classes)) if self.pfc_classes is None else self.pfc_classes

    @property
    def alpha(self) -> float:
        """Longest queue over the free memory of its switch, default applied."""
        return 1.0 if self.shared_buffer_alpha is None else self.shared_buffer_alpha

    @property
    def resume_bytes(self) -> int:
        """Threshold at which a paused link resumes, default applied, bytes; 0 without flow control."""
        if self.pfc_resume_bytes is not None:
            return self.pfc_resume_bytes
        return (self.pfc_pause_bytes or 0) // 2

    def cross_checks(self) -> Iterator[Problem]:
        """Check that thresholds can be reached and belong to the discipline."""
        if self.ecn_threshold_bytes is not None and self.ecn_threshold_bytes > self.buffer_bytes:
            yield Problem(
                "ecn_threshold_bytes",
                self.ecn_threshold_bytes,
                f"at most buffer_bytes = {self.buffer_bytes}",
                "lower the threshold, or leave it out for queues that never mark",
            )
        yield from self._check_red()
        yield from self._check_flow_control()
        yield from self._check_shared_buffer()
        yield from self._check_classes()

    def _check_red(self) -> Iterator[Problem]:
        limits = {"red_min_bytes": self.red_min_bytes, "red_max_bytes": self.red_max_bytes}
        for key, limit in limits.items():
            if self.discipline == "red" and limit is None:
                yield Problem(key, NOTHING, 'a size in bytes, because discipline = "red"')
            if self.discipline != "red" and limit is not None:
                yield Problem(
                    key, limit, f'no such key with discipline = "{self.discipline}"', 'set discipline = "red"'
                )
        if self.discipline != "red" or self.red_min_bytes is None or self.red_max_bytes is None:
            return
        if self.ecn_threshold_bytes is not None:
            yield Problem(
                "ecn_threshold_bytes",
                self.ecn_threshold_bytes,
                'no such key with discipline = "red"',
                "red marks by itself: leave the step threshold out",
            )
        if self.red_min_bytes >= self.red_max_bytes:
            yield Problem(
                "red_min_bytes", self.red_min_bytes, f"less than red_max_bytes = {self.red_max_bytes}"
            )
        if self.red_max_bytes > self.buffer_bytes:
            yield Problem("red_max_bytes", self.red_max_bytes, f"at most buffer_bytes = {self.buffer_bytes}")

    def _check_flow_control(self) -> Iterator[Problem]:
        if self.pfc_pause_bytes is None:
            if self.pfc_resume_bytes is not None:
                yield Problem("pfc_resume_bytes", self.pfc_resume_bytes, "pfc_pause_bytes beside it")
            return
        if self.pfc_pause_bytes >= self.buffer_bytes:
            yield Problem(
                "pfc_pause_bytes", self.pfc_pause_bytes, f"less than buffer_bytes = {self.buffer_bytes}"
            )
        if self.resume_bytes > self.pfc_pause_bytes:
            yield Problem(
                "pfc_resume_bytes", self.resume_bytes, f"at most pfc_pause_bytes = {self.pfc_pause_bytes}"
            )
        if self.discipline == "red" and self.red_action == "drop":
            yield Problem(
                "red_action", self.red_action, '"mark", because flow control is there to lose nothing'
            )

    def _check_shared_buffer(self) -> Iterator[Problem]:
        if self.shared_buffer_bytes is None:
            if self.shared_buffer_alpha is not None:
                yield Problem(
                    "shared_buffer_alpha", self.shared_buffer_alpha, "shared_buffer_bytes beside it"
                )
            return
        if self.buffer_bytes > self.shared_buffer_bytes:
            yield Problem(
                "buffer_bytes",
                self.buffer_bytes,
                f"at most shared_buffer_bytes = {self.shared_buffer_bytes}",
                "a port has no more than its switch: lower it to that, or to the most one port may take",
            )
        if self.pfc_pause_bytes is not None:
            yield Problem(
                "pfc_pause_bytes",
                self.pfc_pause_bytes,
                "no such key with shared_buffer_bytes",
                "room for paused links is reserved for each of them: leave one of the two out",
            )
        longest_bytes = int(self.shared_buffer_bytes * self.alpha / (1.0 + self.alpha))
        for key in ("ecn_threshold_bytes", "red_max_bytes"):
            limit = getattr(self, key)
            if limit is not None and limit > longest_bytes:
                yield Problem(
                    key,
                    limit,
                    f"at most {longest_bytes}: with shared_buffer_alpha = {self.alpha:g}, a port that is"
                    f" alone takes no more of {self.shared_buffer_bytes}",
                )

    def carries_data(self, number: int) -> bool:
        """Return whether a class is there for full packets, not only for ACKs or trimmed headers."""
        return number != self.ack_class and not (self.trim and number == self.classes - 1)

    def _check_classes(self) -> Iterator[Problem]:
        lists = {
            "weights": self.weights,
            "class_buffer_bytes": self.class_buffer_bytes,
            "class_ecn_threshold_bytes": self.class_ecn_threshold_bytes,
        }
        for key, values in lists.items():
            if values is not None and len(values) != self.classes:
                yield Problem(key, list(values), f"one value for each of classes = {self.classes}")
        buffers = self.class_buffer_bytes or (self.buffer_bytes,) * self.classes
        for number, threshold in enumerate(self.class_ecn_threshold_bytes or ()):
            if number < len(buffers) and threshold > buffers[number]:
                yield Problem(
                    "class_ecn_threshold_bytes",
                    threshold,
                    f"at most the {buffers[number]} bytes of class {number}",
                    "packets are dropped before they are marked",
                )
        if self.classes == 1:
            needs = "classes = 2 or more, because there is one queue only"
            for key, value, absent in (
                ("scheduler", self.scheduler, "strict"),
                ("trim", self.trim, False),
                ("class_buffer_bytes", self.class_buffer_bytes, None),
                ("class_ecn_threshold_bytes", self.class_ecn_threshold_bytes, None),
            ):
                if value != absent:
                    yield Problem(key, value, needs)
        if self.pfc_classes is not None:
            if self.pfc_pause_bytes is None:
                yield Problem("pfc_classes", list(self.pfc_classes), "pfc_pause_bytes beside it")
            if max(self.pfc_classes) >= self.classes:
                yield Problem(
                    "pfc_classes", list(self.pfc_classes), f"numbers less than classes = {self.classes}"
                )
        if self.scheduler != "wrr" and self.weights is not None:
            yield Problem("weights", list(self.weights), 'scheduler = "wrr" beside it')
        if self.ack_class is not None and self.ack_class >= self.classes:
            yield Problem("ack_class", self.ack_class, f"less than classes = {self.classes}")
        if self.trim and self.pfc_pause_bytes is not None:
            yield Problem(
                "trim",
                True,
                "false with pfc_pause_bytes",
                "where nothing is dropped, nothing is cut: leave one of the two out",
            )
