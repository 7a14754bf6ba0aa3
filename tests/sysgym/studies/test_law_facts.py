"""Facts about laws are found without what only the kernel's networks need."""

from __future__ import annotations

import subprocess
import sys

from sysgym.emulator.packets.transports import get_transport
from sysgym.studies.law_facts import facts_of

WITHOUT = ("mininet", "msgpack", "zmq")


def test_facts_need_no_package_of_the_kernels_backend() -> None:
    code = f"""
import sys
for name in {WITHOUT}:
    sys.modules[name] = None
from sysgym.emulator.packets.transports import get_transport
from sysgym.envs.congestion.backends import law_of_agents
from sysgym.studies.law_facts import facts_of
print(*(facts_of(get_transport(law)).kernel for law in ("dctcp", "cubic", "swift")))
print(law_of_agents("linux", get_transport("cubic"), multiplied=True))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["True True False", "scaled_cubic"], done.stderr
    assert facts_of(get_transport("dctcp")).kernel
