"""Pictures of a report, grouped by their place in the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sysgym.bench.report.data.benchmark import ScenarioResult
from sysgym.bench.report.pictures.plots import Picture
from sysgym.bench.surveys import Page

Shown = tuple[Picture, str]
"""A picture and its caption."""


@dataclass(frozen=True)
class Gallery:
    """All pictures with their captions.

    Attributes:
        results: Slug of a result -> its pictures.
        overall: Pictures over all scenarios.
        training: Pictures of trainings.
        matrix: Page of the generalisation matrix with its picture; None without a matrix.
    """

    results: Mapping[str, Sequence[Shown]] = field(default_factory=dict)
    overall: Sequence[Shown] = ()
    training: Sequence[Shown] = ()
    matrix: tuple[Page, Shown] | None = None

    def of_result(self, result: ScenarioResult) -> Sequence[Shown]:
        """Return the pictures of a scenario."""
        return self.results.get(result.slug, ())

    def of_survey(self, page: Page) -> Sequence[Shown]:
        """Return the pictures that belong to a page of a survey."""
        return (self.matrix[1],) if self.matrix is not None and self.matrix[0] is page else ()

    def __iter__(self) -> Iterator[Picture]:
        groups = [*self.results.values(), self.overall, self.training]
        yield from (picture for shown in groups for picture, _ in shown)
        if self.matrix is not None:
            yield self.matrix[1][0]
