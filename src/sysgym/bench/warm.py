"""What every worker of a benchmark needs, imported once in the process that workers are copies of.

Nothing here starts a thread: a copy has only the thread that made it.
"""

from __future__ import annotations

from numba.core.registry import cpu_target

import sysgym.bench.episodes
import sysgym.envs.congestion.datacenter.datacenter_cc  # noqa: F401  (the largest of the environments' imports)

cpu_target.target_context.refresh()  # numba's own tables: as long as all other imports together
