"""Kernel settings of a namespace: taken, missing, refused, read-only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sysgym.emulator.linux.kernel.bpf_programs import Programs
from sysgym.emulator.linux.kernel.fabric import Fabric
from sysgym.emulator.linux.kernel.nodes import Namespace
from sysgym.emulator.packets.topology import build_topology
from sysgym.errors import BackendError
from sysgym.scenarios import CongestionScenario, load_scenario

pytestmark = pytest.mark.linux

SETTING = "ipv4/fib_multipath_hash_policy"
REFUSED = {SETTING: "99"}
READ_ONLY = "ipv4/tcp_available_congestion_control"


@pytest.fixture(scope="module")
def namespace(programs: Programs) -> Iterator[Namespace]:
    """The first host's; skips, with the reason, where there is no root."""
    scenario = load_scenario("iroko-dumbbell-10m", expect=CongestionScenario)
    fabric = Fabric(build_topology(scenario.topology), scenario.transport)
    yield fabric.namespace(0)
    fabric.close()


def test_a_setting_is_written(namespace: Namespace) -> None:
    assert namespace.set_sysctls({SETTING: "1"}) == []
    with namespace.entered(), open(f"/proc/sys/net/{SETTING}") as file:
        assert file.read() == "1\n"


def test_a_setting_that_the_kernel_lacks_is_named(namespace: Namespace) -> None:
    assert namespace.set_sysctls({"core/no_such_setting": "1", SETTING: "1"}) == ["core/no_such_setting"]


def test_a_refused_value_is_an_error_unless_it_is_optional(namespace: Namespace) -> None:
    with pytest.raises(BackendError, match=f"net/{SETTING} = 99: Invalid argument"):
        namespace.set_sysctls(REFUSED)
    assert namespace.set_sysctls(REFUSED, optional=(SETTING,)) == [SETTING]


def test_a_setting_that_cannot_be_written_says_what_to_do(namespace: Namespace) -> None:
    with pytest.raises(BackendError, match=rf"/proc/sys/net/{READ_ONLY}: .*--privileged"):
        namespace.set_sysctls({READ_ONLY: "cubic"})
