"""Tables of laws on random links: shares beside other laws, and fairness among own flows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sysgym.bench.tables import Table
from sysgym.studies.random_links.study import RandomLinks

Array: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = Sequence[Mapping[str, Any]]

FAIR = 2.0 / 3.0, 4.0 / 3.0
"""Shares between which each of two laws has at least half of what the other has."""

STARVES, TAKES_ALL = 0.2, 1.8
JAIN = 0.98, 0.9
FULL = 0.6
"""Mean queue over the buffer from which a buffer counts as full."""


class Shares:
    """Rows by law and neighbour.

    Attributes:
        laws: Names of the laws.
        beside: Names of the laws beside which they were played.
    """

    def __init__(self, settings: RandomLinks, rows: Rows) -> None:
        """Sort the rows of a study."""
        self.laws = [law.name for law in settings.laws]
        self.beside = [other.name for other in settings.beside]
        self._rows = rows

    def rows(self, law: str, beside: str | None) -> Rows:
        """Return the rows of a law beside another one, or in crowds of its own."""
        return [row for row in self._rows if row["law"] == law and row["beside"] == beside]

    def shares(self, law: str, beside: str) -> Array:
        """Return the law's share on each link, where 1 is fair and 2 everything, shape (n_links,)."""
        return np.array([row["share"] for row in self.rows(law, beside)])

    def jain(self, law: str) -> Array:
        """Return Jain's index in each crowd, shape (n_crowds,)."""
        return np.array([row["jain_index"] for row in self.rows(law, None)])


def is_fair(shares: Array) -> NDArray[np.bool_]:
    """Return on which links a share is fair."""
    fair: NDArray[np.bool_] = (shares >= FAIR[0]) & (shares <= FAIR[1])
    return fair


def tables(found: Shares) -> Iterator[Table]:
    """Yield the table of shares and that of own flows, each if it has rows."""
    for table in (_share_table(found), _crowd_table(found)):
        if table.rows:
            yield table


def _share_table(found: Shares) -> Table:
    rows = []
    for law in found.laws:
        for other in found.beside:
            shares = found.shares(law, other)
            if len(shares):
                counts = [
                    len(shares), is_fair(shares).sum(), (shares < STARVES).sum(), (shares > TAKES_ALL).sum()
                ]  # fmt: skip
                rows.append((law, other, *map(str, counts), f"{np.median(shares):.2f}"))
    fair = f">{FAIR[0]:.2f} to {FAIR[1]:.2f}"
    extremes = (f">below {STARVES:g}", f">above {TAKES_ALL:g}")
    return Table(
        "Shares of laws beside others, number of links; 1 is fair, 2 is everything",
        ("law", "beside", ">links", fair, *extremes, ">median share"),
        tuple(rows),
    )


def _crowd_table(found: Shares) -> Table:
    rows = []
    for law in found.laws:
        own = found.rows(law, None)
        for packets in sorted({row["packets_an_ack"] for row in own}):
            some = [row for row in own if row["packets_an_ack"] == packets]
            jain = [row["jain_index"] for row in some]
            full = sum(row["queue_mean_bytes"] > FULL * row["buffer_bytes"] for row in some)
            fair = [sum(index >= least for index in jain) for least in JAIN]
            rows.append((law, str(packets), *map(str, [len(some), *fair, full]), f"{min(jain):.3f}"))
    columns = (
        "law", ">packets an ACK", ">links", *(f">Jain {least:g}" for least in JAIN), ">buffer full",
        ">least Jain",
    )  # fmt: skip
    return Table("Every law among its own flows, number of links", columns, tuple(rows))


def verdicts(found: Shares) -> list[str]:
    """Return a sentence for each law: on how many links it has a fair share, and its own flows converge."""
    sentences = []
    for law in found.laws:
        words = []
        for other in found.beside:
            shares = found.shares(law, other)
            if len(shares):
                words.append(f"{is_fair(shares).sum()} of {len(shares)} with {other}")
        parts = [f"a fair share on {', '.join(words)}"] if words else []
        jain = found.jain(law)
        if len(jain):
            parts.append(
                f"Jain's index {JAIN[0]:g} among its own flows on {(jain >= JAIN[0]).sum()} of {len(jain)}"
            )
        sentences.append(f"{law}: {'; '.join(parts) or 'it can share a link with none of the others'}.")
    return sentences


def markdown(settings: RandomLinks, found: Sequence[Table], sentences: Sequence[str]) -> str:
    """Return the report as Markdown."""
    changed = ", ".join(f"{key} = {value}" for key, value in settings.overrides.items())
    parts = [
        "# Laws on links drawn at random",
        f"{settings.n_links} links of 0.1 to 40 Gb/s with 2 to 24 flows, half of them another law's, and"
        f" {settings.n_crowds} of 0.5 to 100 Gb/s with 8 to 256 flows of one law that begin one after the"
        f" other, from seed {settings.seed}. Delays, buffers, thresholds of marks and delayed ACKs are drawn,"
        " too. One law on one link is one episode, of 80,000 to 300,000 packets of the line, of which the"
        f" second half counts. A buffer is full where its mean queue is {FULL:.0%} of it."
        + (f" Everywhere: {changed}." if changed else ""),
        "\n".join(f"- {sentence}" for sentence in sentences),
        *(one.markdown() for one in found),
    ]
    return "\n\n".join(parts) + "\n"
