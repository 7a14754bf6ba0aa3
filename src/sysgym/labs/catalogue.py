"""Catalogue of the labs: numbers, names, durations, and the modules of their graders."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from sysgym.errors import UnknownName

if TYPE_CHECKING:
    from sysgym.labs.grades import Part


@dataclass(frozen=True)
class Lab:
    """Description of one lab.

    Attributes:
        number: Number, from 1.
        name: Name of its files, without number.
        title: Title.
        idea: Main lesson of the lab, one sentence.
        class_minutes: Time that a student needs, in minutes.
        extras: Extras of the package that the experiments require.
        contest: Whether grades include a score by which a class is ranked.
        limit_s: Time after which the grading of one submission is stopped.
    """

    number: int
    name: str
    title: str
    idea: str
    class_minutes: int
    extras: tuple[str, ...] = ()
    contest: bool = False
    limit_s: float = 120.0

    @property
    def file_stem(self) -> str:
        """Stem of its files, such as ``1-bufferbloat``."""
        return f"{self.number}-{self.name}"

    @property
    def module(self) -> str:
        """Module of its grader."""
        return f"sysgym.labs.graders.{self.name.replace('-', '_')}"

    def parts(self) -> tuple[Part, ...]:
        """Return the graded parts."""
        from importlib import import_module

        found: tuple[Part, ...] = import_module(self.module).PARTS
        return found

    def starter(self) -> str:
        """Return the student's starting file, Python with cells (``py:percent``)."""
        return self._text("py")

    def page(self) -> str:
        """Return the lab's page, without the section that is to be read afterwards."""
        return self._text("md")

    def _text(self, kind: str) -> str:
        path = files("sysgym.labs") / "starters" / f"{self.file_stem}.{kind}.txt"
        return path.read_text(encoding="utf-8")


LABS = (
    Lab(
        1,
        "bufferbloat",
        "Bufferbloat",
        "A buffer beyond one bandwidth-delay product buys no throughput, only delay.",
        60,
    ),
    Lab(
        2,
        "dctcp",
        "DCTCP and its threshold K",
        "A switch that marks early and a sender that counts marks keep the link full with a queue of K.",
        75,
    ),
    Lab(
        3,
        "control-law",
        "Write a congestion control law",
        "A law is judged where it was not tuned.",
        90,
        contest=True,
    ),
    Lab(
        4,
        "incast",
        "Incast and tails",
        "The slowest of many answers decides, so a delay that is rare per server is common per request.",
        75,
    ),
    Lab(
        5,
        "ppo",
        "Train an agent with PPO",
        "Judge a policy in environments that it was not trained in.",
        90,
        extras=("train",),
    ),
    Lab(
        6,
        "sim-to-real",
        "From the simulator to the kernel",
        "A difference counts if it is larger than its uncertainty and large enough to matter.",
        60,
    ),
    Lab(
        7,
        "stragglers",
        "Stragglers without the future",
        "For every number, ask when it became known.",
        90,
    ),
    Lab(
        8,
        "placement",
        "Placement of collectives",
        "Before you train an agent, count the possibilities: a search may find the optimum.",
        75,
    ),
)


def get_lab(number: int) -> Lab:
    """Return a lab by its number.

    Raises:
        UnknownName: There is no such lab.
    """
    for lab in LABS:
        if lab.number == number:
            return lab
    raise UnknownName("lab", str(number), [str(lab.number) for lab in LABS])
