"""Distribution of the tests over processes: a file or a group at a time, those with long tests first.

What a process has compiled, loaded and prepared for the first test of a file is there for the others.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadGroupScheduling


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """One worker more than usual: many tests wait for the kernel's clock or for other processes."""
    n_workers = yield
    return n_workers if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else n_workers + 1


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadGroupScheduling | None:
    """Distribute groups, as ``--dist loadgroup`` does, and tests without a group by their files."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class ByFile(LoadGroupScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            group = super()._split_scope(nodeid)
            return nodeid.split("::", 1)[0] if group == nodeid else group

    config.option.loadscopereorder = False  # by the number of tests, which says little of how long they take
    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests come first: none of them is left to one process while the others have nothing to do.

    The longest group of all is the kernel's.
    """
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    if item.get_closest_marker("linux") is not None:
        return 0
    return 1 if item.get_closest_marker("slow") is not None else 2
