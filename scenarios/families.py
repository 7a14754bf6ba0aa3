"""The families of scenarios: a new family is one schema module and one line here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from sysgym.scenarios.errors import UnknownName

if TYPE_CHECKING:
    from sysgym.scenarios.schema.common import Scenario

FAMILIES = {
    "congestion": "sysgym.scenarios.schema.congestion:CongestionScenario",
    "stragglers": "sysgym.scenarios.schema.stragglers:StragglerScenario",
    "placement": "sysgym.scenarios.schema.placement:PlacementScenario",
}
"""Name of the family -> module and class of its schema, imported when first needed."""


def scenario_model(family: str) -> type[Scenario]:
    """Return the schema of a family.

    Args:
        family: One of :data:`FAMILIES`.

    Raises:
        UnknownName: There is no such family.
    """
    from sysgym.scenarios.schema.common import Scenario

    if family not in FAMILIES:
        raise UnknownName("family", family, FAMILIES)
    module_name, _, class_name = FAMILIES[family].partition(":")
    model = getattr(import_module(module_name), class_name)
    assert isinstance(model, type)
    assert issubclass(model, Scenario)
    return model
