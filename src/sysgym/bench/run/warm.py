"""Imports of benchmark workers, loaded once in the process from which workers are forked.

No import may start a thread, since a forked process has only one thread.
"""

from __future__ import annotations

from numba.core.registry import cpu_target

import sysgym.bench.run.episodes  # noqa: F401
from sysgym.scenarios.families import families
from sysgym.scenarios.family import load_entry

for family in families().values():
    if family.compile:  # families with compiled code have the slowest imports
        load_entry(family.environments[0].entry_point)

cpu_target.target_context.refresh()  # loads numba's tables, which takes as long as all other imports
