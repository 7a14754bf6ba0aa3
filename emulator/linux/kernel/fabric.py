"""A scenario's network as Linux nodes: addresses, routes, equal-cost paths and the hosts' TCP settings.

Hosts and switches are network namespaces. Switches are routers: modern datacenter fabrics route at every hop
(RFC 7938), and the kernel's multipath routes with a hash of the 5-tuple are their ECMP. Every interface is
unnumbered, neighbour entries are static and IPv6 is off, so that a queue only ever holds the scenario's
packets.
"""

from __future__ import annotations

import operator
import time
from collections import deque
from collections.abc import Iterator
from ipaddress import IPv4Address

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.linux.kernel import links_and_routes
from sysgym.emulator.linux.kernel.bpf_programs import Programs
from sysgym.emulator.linux.kernel.delay_lines import DelayLines, Pair, is_delayed
from sysgym.emulator.linux.kernel.links_and_routes import Interface
from sysgym.emulator.linux.kernel.netlink import Netlink
from sysgym.emulator.linux.kernel.nodes import Namespace, VethLink, WaitingNode, make_links
from sysgym.emulator.linux.processors import STEERING_SETTING, steering_mask
from sysgym.emulator.packets.topology import Topology
from sysgym.scenarios.errors import BackendError
from sysgym.scenarios.schema.congestion.transport import Transport

MOST_HOSTS_A_SWITCH = 254
"""Hosts of a switch share a /24."""

_RUNNING_S = 5.0

_PACKET_OVERHEAD_BYTES = 850
"""Bytes that the kernel counts for a packet in a socket's buffer besides its payload."""

_EVERYWHERE = {
    "ipv6/conf/all/disable_ipv6": "1",
    "ipv6/conf/default/disable_ipv6": "1",
    "ipv4/conf/all/rp_filter": "0",
    "ipv4/conf/default/rp_filter": "0",
}
_OPTIONAL = (STEERING_SETTING,)
"""Settings that a kernel may refuse, such as a processor that it keeps for other work (``isolcpus``)."""
_IN_SWITCHES = {
    "ipv4/ip_forward": "1",
    "ipv4/conf/all/send_redirects": "0",
    "ipv4/fib_multipath_hash_policy": "1",
    "ipv4/fib_multipath_use_neigh": "0",
}


class Fabric:
    """The nodes and links of a topology, running and routed.

    Args:
        topology: The network.
        ends: Constants of the hosts: windows, time-outs and acknowledgements become metrics of routes.
        first_port: Number of link 0's port; link ``i`` has ``first_port + i``.
        bundle_packets: Most packets that travel as one; 1 means that each travels by itself.
        programs: The loaded eBPF programs, which long cables need; without them all cables are short.
        packet_processor: Processor that moves the packets; None leaves it to the kernel.

    Attributes:
        nodes: Mininet's nodes, by node id.
        interfaces: The sending interface of each link.
        addresses: Address of every host.
        absent: Kernel settings that were requested and do not exist, or optional ones that were refused.

    Raises:
        BackendError: If the kernel refuses a request. Everything made until then is removed.
        BackendUnavailable: If Mininet is missing, or netem where a cable is long.
    """

    def __init__(
        self,
        topology: Topology,
        ends: Transport,
        *,
        first_port: int = 1,
        bundle_packets: int = 1,
        programs: Programs | None = None,
        packet_processor: int | None = None,
    ) -> None:
        self.topology = topology
        self.nodes: list[WaitingNode] = []
        self.interfaces: list[Interface] = []
        self.addresses: list[IPv4Address] = _host_addresses(topology)
        self.absent: list[str] = []
        self._delay_lines: DelayLines | None = None
        self._connections: list[Netlink] = []
        self._towards = {
            edge: _links_towards(topology, edge) for edge in np.unique(topology.host_edge).tolist()
        }
        self._mtu_bytes, self._bundle_packets = ends.mtu_bytes, bundle_packets
        try:
            self._make_nodes(programs)
            self._set_sysctls(ends, packet_processor)
            self._make_links(first_port)
            self._make_routes(ends)
            self._wait_until_running()
        except BaseException:
            self.close()
            raise

    def namespace(self, node: int) -> Namespace:
        """Return the network namespace of a node."""
        return self.nodes[node].namespace

    @property
    def has_choices(self) -> bool:
        """Whether some switch has more than one shortest path to a host."""
        return any(len(links) > 1 for towards in self._towards.values() for links in towards.values())

    def netns_pid(self, link: int) -> int:
        """Return the process in the namespace of the node that sends on a link."""
        return self.nodes[int(self.topology.link_source[link])].pid

    def route(self, src: int, dst: int, src_port: int, dst_port: int) -> NDArray[np.int32]:
        """Return the links that a TCP flow takes, as chosen by the kernels of its switches.

        Raises:
            BackendError: If the packets would never arrive.
        """
        return np.fromiter(self._walk(src, dst, src_port, dst_port), dtype=np.int32)

    def takes(self, route: NDArray[np.int32], src: int, dst: int, src_port: int, dst_port: int) -> bool:
        """Return whether a TCP flow would take these links; the route may be padded with -1."""
        wanted = (link for link in route.tolist() if link >= 0)
        return all(map(operator.eq, self._walk(src, dst, src_port, dst_port), wanted))

    def _walk(self, src: int, dst: int, src_port: int, dst_port: int) -> Iterator[int]:
        """Yield a flow's links in order; kernels are asked only where there is a choice."""
        topology = self.topology
        edge = int(topology.host_edge[dst])
        link = int(topology.host_uplink[src])
        yield link
        while (node := int(topology.link_target[link])) != edge:
            choices = self._towards[edge][node]
            if len(choices) == 1:
                link = choices[0]
            else:
                incoming = self.interfaces[link ^ 1].ifindex
                index = links_and_routes.next_hop(
                    self._connections[node],
                    incoming,
                    self.addresses[src],
                    self.addresses[dst],
                    src_port,
                    dst_port,
                )
                link = self._link_of[node, index]
            yield link
        yield int(topology.host_downlink[dst])

    def empty_cables(self) -> None:
        """Discard the packets under way on long cables."""
        if self._delay_lines is not None:
            self._delay_lines.empty()

    def close(self) -> None:
        """End all nodes. A namespace is removed once its last socket is closed, too."""
        for connection in self._connections:
            connection.close()
        self._connections = []
        for node in self.nodes:
            node.terminate()
        self.nodes = []
        if self._delay_lines is not None:
            self._delay_lines.close()
            self._delay_lines = None

    def _make_nodes(self, programs: Programs | None) -> None:
        if programs is not None and is_delayed(self.topology):
            self._delay_lines = DelayLines(self.topology, programs)
        for name in self.topology.node_names:
            self.nodes.append(WaitingNode(name))
        for node in self.nodes:
            node.ready()
            with node.namespace.entered():
                self._connections.append(Netlink(0))
        if self._delay_lines is not None:
            self._delay_lines.ready()

    def _set_sysctls(self, ends: Transport, packet_processor: int | None) -> None:
        absent: set[str] = set()
        everywhere = _EVERYWHERE
        if packet_processor is not None:
            everywhere = {**_EVERYWHERE, STEERING_SETTING: steering_mask(packet_processor)}
        for node_id, node in enumerate(self.nodes):
            if node_id < self.topology.n_hosts:
                own = _host_sysctls(ends, self._n_ahead(ends, node_id))
            else:
                # Without seeds of their own all switches would hash alike, and the second stage of a fabric
                # would only see flows that the first has sorted.
                own = {**_IN_SWITCHES, "ipv4/fib_multipath_hash_seed": str(_hash_seed(node_id))}
            absent.update(node.namespace.set_sysctls({**everywhere, **own}, _OPTIONAL))
        if self._delay_lines is not None:
            self._delay_lines.node.namespace.set_sysctls(everywhere, _OPTIONAL)
        self.absent = sorted(absent)

    def _n_ahead(self, ends: Transport, host: int) -> int:
        """Return the packets that a flow queues at its interface, at least a millisecond's worth."""
        line_rate_bps = self.topology.link_rate_bps[self.topology.host_uplink[host]]
        a_millisecond = int(1e-3 * line_rate_bps / (8 * ends.mtu_bytes))
        return max(ends.host_queue_packets, 2 * self._bundle_packets, a_millisecond)

    def _make_links(self, first_port: int) -> None:
        pairs: list[Pair] = []
        for cable in range(self.topology.n_links // 2):
            there, back = 2 * cable, 2 * cable + 1
            source, target = self.topology.link_source[there], self.topology.link_target[there]
            groups = (first_port + there, first_port + back)
            link = VethLink(self.nodes[source], self.nodes[target], groups)
            self.interfaces += link.ends
            pairs += [link.ends] if self._delay_lines is None else self._delay_lines.pairs(cable, link.ends)
        make_links(pairs, self._mtu_bytes, self._bundle_packets)
        if self._delay_lines is not None:
            self._delay_lines.connect()
        self._link_of = {
            (int(self.topology.link_source[link]), interface.ifindex): link
            for link, interface in enumerate(self.interfaces)
        }

    def _make_routes(self, ends: Transport) -> None:
        topology = self.topology
        requests: list[list[bytes]] = [[links_and_routes.up(1)] for _ in self.nodes]
        for link, interface in enumerate(self.interfaces):
            requests[topology.link_source[link]].append(links_and_routes.up(interface.ifindex))
        for node in range(topology.n_nodes):
            index = self.interfaces[topology.host_uplink[node]].ifindex if node < topology.n_hosts else 1
            requests[node].append(links_and_routes.address(index, self._address_of(node)))
        for link in range(topology.n_links):
            source, target = int(topology.link_source[link]), int(topology.link_target[link])
            index, mac = self.interfaces[link].ifindex, self.interfaces[link ^ 1].mac
            requests[source].append(links_and_routes.neighbour(index, self._address_of(target), mac))
        for host in range(topology.n_hosts):
            up, down = int(topology.host_uplink[host]), int(topology.host_downlink[host])
            edge = int(topology.host_edge[host])
            way_out = [(self.interfaces[up].ifindex, self._address_of(edge))]
            requests[host].append(links_and_routes.route(IPv4Address(0), 0, way_out, _route_metrics(ends)))
            hop = [(self.interfaces[down].ifindex, None)]
            requests[edge].append(links_and_routes.route(self.addresses[host], 32, hop))
        for edge in self._towards:
            network = _edge_network(topology, edge)
            for switch, links in self._towards[edge].items():
                hops = [
                    (self.interfaces[link].ifindex, self._address_of(int(topology.link_target[link])))
                    for link in links
                ]
                requests[switch].append(links_and_routes.route(network, 24, hops))
        for node, of_node in enumerate(requests):
            self._connections[node].request_all(
                of_node, f"addresses and routes of {topology.node_names[node]}"
            )

    def _wait_until_running(self) -> None:
        """Wait until the links run; the kernel discards packets until it notices that both ends are up."""
        deadline_s = time.monotonic() + _RUNNING_S
        for link, interface in enumerate(self.interfaces):
            connection = self._connections[self.topology.link_source[link]]
            while not links_and_routes.is_running(connection, interface.ifindex):
                if time.monotonic() > deadline_s:
                    raise BackendError(f"link {self.topology.link_names[link]} does not come up")
                time.sleep(1e-3)
        while self._delay_lines is not None and not self._delay_lines.is_running():
            if time.monotonic() > deadline_s:
                raise BackendError("the long cables do not come up")
            time.sleep(1e-3)

    def _address_of(self, node: int) -> IPv4Address:
        if node < self.topology.n_hosts:
            return self.addresses[node]
        return IPv4Address("172.16.0.0") + 1 + node


def _hash_seed(node_id: int) -> int:
    """Return any number but 0 (which means a random one), far from those of the neighbours."""
    return (node_id * 0x9E3779B1 + 1) % 2**32 or 1


def _edge_network(topology: Topology, edge: int) -> IPv4Address:
    return IPv4Address("10.0.0.0") + ((edge - topology.n_hosts) << 8)


def _host_addresses(topology: Topology) -> list[IPv4Address]:
    """Return addresses ``10.x.y.z``, where x.y is the switch and z the host's place at it."""
    n_of_edge: dict[int, int] = {}
    addresses = []
    for edge in topology.host_edge.tolist():
        n_of_edge[edge] = n_of_edge.get(edge, 0) + 1
        addresses.append(_edge_network(topology, edge) + n_of_edge[edge])
    return addresses


def _links_towards(topology: Topology, edge: int) -> dict[int, list[int]]:
    """Return, for every other switch, its links on shortest paths to one switch, ascending."""
    between = np.flatnonzero(~topology.from_host & ~topology.to_host).tolist()
    links_from: dict[int, list[int]] = {}
    for link in between:
        links_from.setdefault(int(topology.link_source[link]), []).append(link)
    distance = {edge: 0}
    waiting = deque([edge])
    while waiting:
        node = waiting.popleft()
        for link in links_from.get(node, []):
            neighbour = int(topology.link_target[link])
            if neighbour not in distance:
                distance[neighbour] = distance[node] + 1
                waiting.append(neighbour)
    return {
        switch: [link for link in links_from[switch] if distance[int(topology.link_target[link])] == hops - 1]
        for switch, hops in distance.items()
        if hops > 0
    }


def _host_sysctls(ends: Transport, n_ahead: int) -> dict[str, str]:
    return {
        # Data that a flow queues at its interface ahead of time (TCP small queues); the rest waits in the
        # flow.
        "ipv4/tcp_limit_output_bytes": str(n_ahead * (ends.payload_bytes + _PACKET_OVERHEAD_BYTES)),
        # ECN where the sender's congestion control asks for it (dctcp, learned); as on the simulator.
        "ipv4/tcp_ecn": "2",
        "ipv4/tcp_ecn_fallback": "0",
        "ipv4/tcp_no_metrics_save": "1",
        "ipv4/tcp_slow_start_after_idle": str(
            int(ends.connections == "persistent" and ends.idle_rule == "decay")
        ),
        # Twelve bytes of every packet, beyond the 40 of IPv4 and TCP without options.
        "ipv4/tcp_timestamps": str(int(ends.header_bytes > 40)),
        "ipv4/tcp_rto_min_us": str(round(ends.min_rto_s * 1e6)),
        "ipv4/tcp_rto_max_ms": str(max(round(ends.max_rto_s * 1e3), 1000)),
        "ipv4/ip_local_port_range": "10240 49151",
        "ipv4/tcp_fastopen": "0",
        # An orphaned socket keeps its namespace alive: not for minutes.
        "ipv4/tcp_orphan_retries": "1",
        "ipv4/tcp_fin_timeout": "1",
        "core/somaxconn": "65535",
        "ipv4/tcp_max_syn_backlog": "65535",
        "ipv4/tcp_syncookies": "0",
    }


def _route_metrics(ends: Transport) -> dict[int, int]:
    metrics = {
        links_and_routes.METRIC_RTO_MIN_MS: max(round(ends.min_rto_s * 1e3), 1),
        links_and_routes.METRIC_INITCWND: ends.initial_window_packets,
    }
    if ends.delayed_ack_packets == 1:
        metrics[links_and_routes.METRIC_QUICKACK] = 1
    return metrics
