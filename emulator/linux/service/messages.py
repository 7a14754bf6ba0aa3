"""Messages between client, service and world processes, as models that are validated on arrival.

See :mod:`sysgym.emulator.linux.service.protocol` for their encoding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from sysgym.scenarios.errors import SysgymError

if TYPE_CHECKING:  # the simulator's imports take as long as all others together
    from sysgym.emulator.packets.workloads.schedule import FlowSchedule

MAX_FLOWS = 30_000
"""Most flows of a schedule, whose table has to fit into a message."""

MAX_PARAMETERS = 1024

MAX_DURATION_S = 600.0
"""Longest interval of one message."""


def _checked(
    dtype: str, ndim: int, holds: Callable[[NDArray[Any]], bool] = lambda array: True, words: str = ""
) -> PlainValidator:
    wanted = np.dtype(dtype)

    def check(value: Any) -> NDArray[Any]:
        if not isinstance(value, np.ndarray):
            raise ValueError(f"expected an array of {wanted}, got {type(value).__name__}")
        if value.dtype != wanted or value.ndim != ndim:
            raise ValueError(
                f"expected an array of {wanted} with {ndim} dimension{'s' * (ndim > 1)},"
                f" got {value.dtype} of shape {value.shape}"
            )
        if not holds(value):
            raise ValueError(f"expected {words}")
        return value

    return PlainValidator(check)


FloatArray = NDArray[np.float64]
Floats = Annotated[FloatArray, _checked("<f8", 1)]
FloatRows = Annotated[FloatArray, _checked("<f8", 2)]
Integers = Annotated[NDArray[np.int64], _checked("<i8", 1)]
SmallIntegers = Annotated[NDArray[np.int32], _checked("<i4", 1)]
SmallIntegerRows = Annotated[NDArray[np.int32], _checked("<i4", 2)]
Booleans = Annotated[NDArray[np.bool_], _checked("?", 1)]
Caps = Annotated[FloatArray, _checked("<f8", 1, lambda a: bool(np.all(a > 0)), "positive rates")]
Rates = Annotated[
    FloatArray,
    _checked("<f8", 1, lambda a: bool(np.all((a > 0) & np.isfinite(a))), "positive, finite numbers"),
]
FlowIds = Annotated[
    NDArray[np.int64], _checked("<i8", 1, lambda a: bool(np.all(a >= 0)), "numbers of flows, from 0 on")
]


def words_of(error: ValidationError) -> str:
    """Return the findings of a validation in one line."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    each = [f"{'.'.join(map(str, one['loc'])) or 'message'}: {one['msg']}" for one in found[:4]]
    return "; ".join(each)[:600]


AS_LIST = Field(strict=False)
"""Field of a tuple, which is a list on the wire."""

Pairs = Annotated[tuple[FlowIds, Rates], AS_LIST]


class Message(BaseModel):
    """Body of a message; unknown keys and wrong types are refused."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, arbitrary_types_allowed=True)

    @classmethod
    def of(cls, **fields: Any) -> Self:
        """Return a message with these fields.

        Raises:
            SysgymError: If a value must not be sent.
        """
        try:
            return cls(**fields)
        except ValidationError as error:
            raise SysgymError(words_of(error)) from None


class Ok(Message):
    """Answer without content."""


class Hello(Message):
    """Request for a greeting."""

    op: Literal["hello"] = "hello"


class Greeting(Message):
    """Answer to :class:`Hello`."""

    sid: str
    version: str
    pid: int
    sessions: int
    max_sessions: int


class Client(Message):
    """Identity of a client on this machine; the service ends its session when the process has ended.

    ``pid_namespace`` is the inode of /proc/self/ns/pid: process ids of a container mean other processes.
    """

    pid: int = Field(ge=1, le=2**31 - 1)
    start_ticks: int = Field(ge=0)
    pid_namespace: int = Field(ge=0)


TransportName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.-]+$")]


class Open(Message):
    """Request to begin a session and build a scenario's network."""

    op: Literal["open"] = "open"
    scenario: dict[str, Any]
    transport: TransportName
    flow_transports: list[
        Annotated[tuple[Annotated[int, Field(ge=0, lt=MAX_FLOWS)], TransportName], AS_LIST]
    ] = []
    parameters: dict[TransportName, Annotated[list[FiniteFloat], Field(max_length=MAX_PARAMETERS)]] = {}
    """Parameters of the transports that have some."""
    client: Client | None = None


class Opened(Message):
    """Answer to :class:`Open`: the endpoint of the session's world, and the token that admits one client.

    ``packet_processor`` moves the world's packets; a client on this machine should stay off it.
    """

    session: int
    endpoint: str
    token: str
    pid: int
    packet_processor: int | None = None


class End(Message):
    """Request to end a session, even if its world does not answer."""

    op: Literal["end"] = "end"
    session: int
    token: str


class ExitQuery(Message):
    """Request for the reason why a session ended, by the holder of its token."""

    op: Literal["what_happened"] = "what_happened"
    session: int
    token: str


class SessionExit(Message):
    """Answer to :class:`ExitQuery`."""

    alive: bool
    words: str
    log: str


class Attach(Message):
    """First message to a world: identifies its client."""

    op: Literal["attach"] = "attach"
    token: str


class World(Message):
    """Answer to :class:`Attach`."""

    n_hosts: int
    n_links: int


class Schedule(Message):
    """Message form of a :class:`FlowSchedule`."""

    src: SmallIntegers
    dst: SmallIntegers
    size_bytes: Integers
    start_ns: Integers
    src_port: SmallIntegers
    dst_port: SmallIntegers
    group: SmallIntegers
    after: SmallIntegerRows
    after_delay_ns: Integers
    priority: SmallIntegers

    @model_validator(mode="after")
    def _consistent(self) -> Schedule:
        n_flows = len(self.src)
        if n_flows > MAX_FLOWS:
            raise ValueError(f"{n_flows} flows; the Linux backend has room for {MAX_FLOWS}")
        for name in Schedule.model_fields:
            if len(getattr(self, name)) != n_flows:
                raise ValueError(f"{name} has {len(getattr(self, name))} rows, src has {n_flows}")
        if np.any(self.src == self.dst) or np.any(self.src < 0) or np.any(self.dst < 0):
            raise ValueError("a flow has to go from one host to another")
        if np.any((self.size_bytes < 1) & (self.size_bytes != -1)):
            raise ValueError("a flow has at least one byte, or -1 when it never ends")
        if np.any(
            (self.src_port < 1) | (self.src_port > 65535) | (self.dst_port < 1) | (self.dst_port > 65535)
        ):
            raise ValueError("ports lie between 1 and 65535")
        if np.any(self.start_ns < 0) or np.any(self.after_delay_ns < 0):
            raise ValueError("times are not negative")
        if np.any(self.after >= np.arange(n_flows)[:, np.newaxis]) or np.any(self.after < -1):
            raise ValueError("a flow waits for flows before it in the schedule")
        return self

    @classmethod
    def from_flows(cls, schedule: FlowSchedule) -> Schedule:
        """Return the message for a schedule."""
        return cls.of(**{name: np.ascontiguousarray(column) for name, column in schedule._asdict().items()})

    def flows(self) -> FlowSchedule:
        """Return the schedule of the message."""
        from sysgym.emulator.packets.workloads.schedule import FlowSchedule

        return FlowSchedule(**{name: getattr(self, name) for name in Schedule.model_fields})


class Controls(Message):
    """Controls to set; those left out are unchanged."""

    host_caps_bps: Caps | None = None
    flow_rates: Pairs | None = None
    windows: Pairs | None = None
    window_factors: Pairs | None = None

    @model_validator(mode="after")
    def _one_each(self) -> Controls:
        for name in ("flow_rates", "windows", "window_factors"):
            pair = getattr(self, name)
            if pair is not None and len(pair[0]) != len(pair[1]):
                raise ValueError(f"{name}: {len(pair[0])} flows and {len(pair[1])} values")
        return self


class Reset(Message):
    """Request to begin an episode."""

    op: Literal["reset"] = "reset"
    seed: int = Field(ge=0)
    schedule: Schedule | None = None


class Apply(Controls):
    """Request to set controls now."""

    op: Literal["apply"] = "apply"


class Step(Controls):
    """Request to set controls, let time pass and read all counters, in one round trip."""

    op: Literal["step"] = "step"
    duration_s: float = Field(gt=0, le=MAX_DURATION_S, allow_inf_nan=False)
    read_flows: FlowIds | None = None


class Read(Message):
    """Request to read counters now."""

    op: Literal["read"] = "read"
    read_flows: FlowIds | None = None


class Readings(Message):
    """Counters of one moment: rows as in PortCounters, HostCounters and single_flows."""

    now_s: float
    jitter_s: float = 0.0
    ports: FloatRows
    hosts: FloatRows
    flow_counters: FloatRows | None = None
    new_warnings: list[str] = []


class ReadFlows(Message):
    """Request for the table of all flows."""

    op: Literal["flows"] = "flows"


class Flows(Message):
    """Answer to :class:`ReadFlows`: a FlowTable."""

    src: Integers
    dst: Integers
    size_bytes: Integers
    group: Integers
    started: Booleans
    start_s: Floats
    finish_s: Floats
    ideal_fct_s: Floats
    delivered_bytes: Integers
    acked_packets: Integers
    marked_packets: Integers
    retransmitted_packets: Integers
    timeouts: Integers
    rtt_mean_s: Floats
    rtt_min_s: Floats


class QueueQuantiles(Message):
    """Request for a quantile of every queue."""

    op: Literal["queue_quantiles"] = "queue_quantiles"
    quantile: float = Field(ge=0, le=1, allow_inf_nan=False)


class OracleRates(Message):
    """Request for the max-min fair rate of every host."""

    op: Literal["oracle_rates"] = "oracle_rates"


class Numbers(Message):
    """Answer with one number for each link or host."""

    values: Floats


class ClearMaxima(Message):
    """Request to begin a new interval for the maxima of the queues."""

    op: Literal["clear_maxima"] = "clear_maxima"


class Bye(Message):
    """Request to end the session."""

    op: Literal["bye"] = "bye"


ToService = Annotated[Hello | Open | End | ExitQuery, Field(discriminator="op")]
ToWorld = Annotated[
    Attach | Reset | Apply | Step | Read | ReadFlows | QueueQuantiles | OracleRates | ClearMaxima | Bye,
    Field(discriminator="op"),
]
REQUEST_TO_SERVICE: TypeAdapter[Any] = TypeAdapter(ToService)
REQUEST_TO_WORLD: TypeAdapter[Any] = TypeAdapter(ToWorld)
