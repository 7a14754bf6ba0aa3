"""Tables of laws on random links: shares beside other laws, and fairness among own flows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sysgym.bench.tables import Table
from sysgym.studies.random_links.study import RandomLinks

Array: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = Sequence[Mapping[str, Any]]

FAIR = 2.0 / 3.0, 4.0 / 3.0
"""Range of shares in which each of two laws has at least half of the other's share."""

STARVED, TAKES_ALL = 0.2, 1.8
"""Shares below which a law has almost nothing, and above which its neighbour has almost nothing."""

JAIN_FAIR, JAIN_LESS = 0.98, 0.9
"""Minimum values of Jain's index for which own flows count as equal, and as nearly equal."""

FULL = 0.6
"""Ratio of the mean queue to the buffer above which a buffer counts as full."""


class LinkRows:
    """Rows of a study by law and neighbour.

    Attributes:
        laws: Names of the laws.
        beside: Names of the neighbours.
        left_out: Names of the neighbours with which a law cannot share a link, by law.
    """

    def __init__(self, settings: RandomLinks, rows: Rows) -> None:
        """Sort the rows, which are in the order of the study's episodes."""
        self.laws = [law.name for law in settings.laws]
        self.beside = [other.name for other in settings.beside]
        self.left_out: dict[str, list[str]] = {name: [] for name in self.laws}
        for law, other in settings.left_out():
            self.left_out[law.name].append(other.name)
        self._rows: dict[tuple[str, str | None], list[Mapping[str, Any]]] = defaultdict(list)
        for job, row in zip(settings.jobs(), rows, strict=True):
            self._rows[job.law.name, None if job.other is None else job.other.name].append(row)

    def crowds(self, law: str) -> Rows:
        """Return the rows of a law's own flows."""
        return self._rows[law, None]

    def shares(self, law: str, beside: str) -> Array:
        """Return the law's share on each link, where 1 is fair and 2 everything, shape (n_links,)."""
        return np.array([row["share"] for row in self._rows[law, beside]])

    def jain(self, law: str) -> Array:
        """Return Jain's index in each crowd, shape (n_crowds,)."""
        return np.array([row["jain_index"] for row in self.crowds(law)])


def is_fair(shares: Array) -> NDArray[np.bool_]:
    """Return a mask of the links on which a share is fair."""
    fair: NDArray[np.bool_] = (shares >= FAIR[0]) & (shares <= FAIR[1])
    return fair


def tables(found: LinkRows) -> Iterator[Table]:
    """Yield the table of shares and that of own flows, each if it has rows."""
    for table in (_share_table(found), _crowd_table(found)):
        if table.rows:
            yield table


def _share_table(found: LinkRows) -> Table:
    rows = []
    for law in found.laws:
        for other in found.beside:
            shares = found.shares(law, other)
            if len(shares):
                counts = [
                    len(shares), is_fair(shares).sum(), (shares < STARVED).sum(), (shares > TAKES_ALL).sum()
                ]  # fmt: skip
                rows.append((law, other, *map(str, counts), f"{np.median(shares):.2f}"))
    fair = f">{FAIR[0]:.2f} to {FAIR[1]:.2f}"
    extremes = (f">below {STARVED:g}", f">above {TAKES_ALL:g}")
    return Table(
        "Shares of laws beside others, number of links; 1 is fair, 2 is everything",
        ("law", "beside", ">links", fair, *extremes, ">median share"),
        tuple(rows),
    )


def _crowd_table(found: LinkRows) -> Table:
    rows = []
    for law in found.laws:
        own = found.crowds(law)
        for packets in sorted({row["packets_an_ack"] for row in own}):
            some = [row for row in own if row["packets_an_ack"] == packets]
            jain = np.array([row["jain_index"] for row in some])
            full = sum(row["queue_mean_bytes"] > FULL * row["buffer_bytes"] for row in some)
            fair = [(jain >= least).sum() for least in (JAIN_FAIR, JAIN_LESS)]
            rows.append((law, str(packets), *map(str, [len(some), *fair, full]), f"{jain.min():.3f}"))
    columns = (
        "law", ">packets per ACK", ">links", f">Jain {JAIN_FAIR:g} or more", f">{JAIN_LESS:g} or more",
        ">buffer full", ">least Jain",
    )  # fmt: skip
    return Table("Every law among its own flows, number of links", columns, tuple(rows))


def verdicts(found: LinkRows) -> list[str]:
    """Return a sentence for each law: the numbers of links with a fair share and with equal own flows."""
    sentences = []
    for law in found.laws:
        beside = {other: found.shares(law, other) for other in found.beside}
        fair = [
            f"{is_fair(shares).sum()} of {len(shares)} with {other}"
            for other, shares in beside.items()
            if len(shares)
        ]
        parts = [f"a fair share on {', '.join(fair)}"] if fair else []
        jain = found.jain(law)
        if len(jain):
            n_equal = (jain >= JAIN_FAIR).sum()
            parts.append(f"Jain's index of its own flows at least {JAIN_FAIR:g} on {n_equal} of {len(jain)}")
        if found.left_out[law]:
            parts.append(f"cannot share a link with {', '.join(found.left_out[law])}")
        sentences.append(f"{law}: {'; '.join(parts)}.")
    return sentences


def markdown(settings: RandomLinks, found: Sequence[Table], sentences: Sequence[str]) -> str:
    """Return the report as Markdown."""
    changed = ", ".join(f"`{key}` = {value}" for key, value in settings.overrides.items())
    parts = [
        "# Laws on links drawn at random",
        f"{settings.n_links} links of 0.1 to 40 Gb/s with 2 to 24 flows, half of them another law's, and"
        f" {settings.n_crowds} of 0.5 to 100 Gb/s with 8 to 256 flows of one law, which begin one after the"
        f" other, from seed {settings.seed}. Delays, buffers, thresholds of marks and delayed ACKs are drawn,"
        " too. One law on one link is one episode, in which the line can carry 80,000 to 300,000 packets; its"
        " second half counts. A share is the mean goodput of the law's flows over that of all flows. A buffer"
        f" is full where its mean queue is {FULL:.0%} of it."
        + (f" On all links, instead of what was drawn: {changed}." if changed else ""),
        "\n".join(f"- {sentence}" for sentence in sentences),
        *(one.markdown() for one in found),
    ]
    return "\n\n".join(parts) + "\n"
