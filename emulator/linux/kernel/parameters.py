"""Laws of our eBPF programs that have parameters, which Python writes into the programs' memory.

A program has room for one set of parameters for each world of a service; all flows of a world that follow the
law share it. The parameters and their order are those of the simulator's transport of the same name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.transports.searched import adaptive_swift, adaptive_target, neural
from sysgym.scenarios.errors import SysgymError

PARAMETER_SETS = 16
"""Sets of parameters of a law, one for each world of a service."""


class Parameters(NamedTuple):
    """Parameters of a law, and where its program keeps them.

    Attributes:
        number: How many there are.
        below: Bound of their size, within which the program's sums fit.
        prefix: Prefix of the congestion control's name.
        map: Prefix of the name of the program's map.
    """

    number: int
    below: float
    prefix: str
    map: str


PARAMETERS = {
    neural.NAME: Parameters(neural.N_PARAMETERS, 1024.0, "sgneur", "sgnets"),
    adaptive_target.NAME: Parameters(adaptive_target.N_PARAMETERS, 8192.0, "sgtarg", "sgconst"),
    adaptive_swift.NAME: Parameters(adaptive_swift.N_PARAMETERS, 8192.0, "sgswift", "sgswcon"),
}
"""Law, which is also the name of its source in ``bpf/`` -> its parameters."""


def in_fixed_point(law: str, parameters: Sequence[float]) -> NDArray[np.int32]:
    """Return parameters of a law in 2^-16.

    Raises:
        SysgymError: If their number is wrong, or they are too large for the kernel.
    """
    values, expected = np.asarray(parameters, dtype=np.float64), PARAMETERS[law]
    if values.shape != (expected.number,):
        raise SysgymError(
            f"{law}: expected {expected.number} parameters, got {values.size}; the agent {law} brings"
            " those of its checkpoint"
        )
    if not np.all(np.abs(values) < expected.below):
        raise SysgymError(f"{law}: the kernel's parameters are below {expected.below:g} in size")
    return np.round(values * 2.0**16).astype(np.int32)
