"""Export of policies as ONNX, written directly from :class:`.graph.PolicyGraph`, without torch.

Inputs are ``observation``, float32 (batch, size), and for masked policies ``action_mask``, bool (batch,
n_actions). Outputs are ``action``, float32 (batch, n) in the environment's units or int64 (batch,), and for
discrete actions also ``scores``.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.checkpoint import Checkpoint, CheckpointMeta
from sysgym.agents.learned.deploy.graph import Choice, Decided, Inputs, PolicyGraph, layers
from sysgym.agents.learned.policy import Mlp
from sysgym.agents.learned.sets.network import SetNet
from sysgym.envs.action_scale import ActionScale
from sysgym.scenarios.errors import MissingExtra, SysgymError
from sysgym.scenarios.files import read_limited

if TYPE_CHECKING:
    import onnx

EXTRA = "export"
FORMAT = "sysgym-onnx-1"

OPERATORS = frozenset(
    (
        "Add",
        "ArgMax",
        "Clip",
        "Concat",
        "Div",
        "Exp",
        "Gather",
        "Identity",
        "MatMul",
        "Max",
        "Min",
        "Mul",
        "ReduceMax",
        "ReduceSum",
        "Relu",
        "Reshape",
        "Slice",
        "Sub",
        "Tanh",
        "Tile",
        "Transpose",
        "Unsqueeze",
        "Where",
    )
)
"""Operators of exported policies; files with other operators are rejected."""

MOST_NUMBERS = 10_000_000
"""Limit of the size of an intermediate array per observation; the largest policy of the package has a
thousand values."""

LARGEST_MODEL_BYTES = 256_000_000
"""Limit of the size of a file that is read."""

OPSET = 17
IR_VERSION = 8
"""Version of the operator set, supported by ONNX Runtime since 1.13."""


def onnx_model(graph: PolicyGraph, properties: Mapping[str, str] | None = None) -> onnx.ModelProto:
    """Return a policy as an ONNX model.

    Args:
        graph: The policy.
        properties: Metadata of the model.

    Raises:
        MissingExtra: If the extra ``export`` is not installed.
    """
    try:
        import onnx
        from onnx import TensorProto, helper
    except ImportError as error:
        raise MissingExtra(EXTRA, "exporting to ONNX") from error

    build = _Build()
    values = build.inputs("observation", graph.inputs)
    if isinstance(graph.network, SetNet):
        values = build.set_net(values, graph.network)
    else:
        values = build.mlp(values, graph.network)
    inputs = [helper.make_tensor_value_info("observation", TensorProto.FLOAT, ["batch", graph.inputs.size])]
    if isinstance(graph.outputs, Choice):
        if graph.masked:
            mask: list[str | int | None] = ["batch", graph.n_outputs]
            inputs.append(helper.make_tensor_value_info("action_mask", TensorProto.BOOL, mask))
        build.choice(values, graph.outputs)
        outputs = [
            helper.make_tensor_value_info("action", TensorProto.INT64, ["batch"]),
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", graph.n_outputs]),
        ]
    else:
        build.rates(values, graph.outputs)
        outputs = [helper.make_tensor_value_info("action", TensorProto.FLOAT, ["batch", graph.n_outputs])]
    model = helper.make_model(
        helper.make_graph(build.nodes, "policy", inputs, outputs, build.constants),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="sysgym",
        producer_version=metadata.version("sysgym"),
    )
    helper.set_model_props(model, dict(properties or {}))
    onnx.checker.check_model(model, full_check=True)
    return model


def checkpoint_properties(checkpoint: Checkpoint) -> dict[str, str]:
    """Return the metadata of a model: its origin and its inputs."""
    meta = checkpoint.meta
    versions = {**meta.versions, "onnx": metadata.version("onnx")}
    return {
        "format": FORMAT,
        "env_id": meta.env_id,
        "scenario": meta.scenario_name,
        "agent": meta.agent,
        "inputs": json.dumps(meta.observation_index),
        "action": json.dumps(meta.action_scale),
        "versions": json.dumps(versions),
        "checkpoint_sha256": hashlib.sha256(checkpoint.path.read_bytes()).hexdigest(),
        "checkpoint_meta": json.dumps(asdict(meta)),
    }


def onnx_bytes(graph: PolicyGraph, properties: Callable[[], Mapping[str, str]]) -> bytes:
    """Return the contents of a policy's ONNX file.

    Args:
        graph: The policy.
        properties: Function that returns the metadata. It is called after the check that ONNX is installed,
            because the metadata include the version of ONNX.

    Raises:
        MissingExtra: If the extra ``export`` is not installed.
    """
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise MissingExtra(EXTRA, "exporting to ONNX") from error
    data: bytes = onnx_model(graph, properties()).SerializeToString()
    return data


class OnnxRunner:
    """Policy in ONNX Runtime, on one thread.

    Args:
        source: Path of the file, or its contents.

    Attributes:
        properties: Metadata of the model.
        n_inputs: Length of an observation.
        masked: Whether the policy requires a mask.
        chooses: Whether actions are discrete.

    Raises:
        MissingExtra: If the extra ``export`` is not installed.
        SysgymError: If the source is not a policy in ONNX.
    """

    def __init__(self, source: str | PathLike[str] | bytes) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise MissingExtra(EXTRA, "playing ONNX files") from error
        shown = "ONNX" if isinstance(source, bytes) else str(source)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        data = source if isinstance(source, bytes) else read_limited(Path(source), LARGEST_MODEL_BYTES)
        _check_contents(data, shown)
        try:
            self._session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the runtime's exceptions have no common base
            raise SysgymError(f"{shown}: not a model that ONNX Runtime reads ({error})") from error
        taken = {one.name: one.shape for one in self._session.get_inputs()}
        given = [one.name for one in self._session.get_outputs()]
        if "observation" not in taken or "action" not in given:
            raise SysgymError(f"{shown}: not a policy; inputs {', '.join(taken)}, outputs {', '.join(given)}")
        self.properties: dict[str, str] = dict(self._session.get_modelmeta().custom_metadata_map)
        self._names = ["action", "scores"] if "scores" in given else ["action"]
        self._shown = shown
        self.masked = "action_mask" in taken
        sizes = [taken[name][1:] for name in ("observation", "action_mask") if name in taken]
        if not all(len(size) == 1 and type(size[0]) is int and 0 < size[0] <= MOST_NUMBERS for size in sizes):
            raise SysgymError(f"{shown}: not a policy; its inputs are not of the shape (batch, size)")
        self.n_inputs = int(sizes[0][0])
        self._try(sizes)

    def _try(self, sizes: Sequence[Sequence[int]]) -> None:
        """Check that a policy returns one decision per observation of a batch."""
        batch = 2
        mask = np.ones((batch, *sizes[-1]), np.bool_) if self.masked else None
        found = self(np.zeros((batch, *sizes[0]), np.float32), mask)
        for answers in (found.action, found.values):
            if answers.shape[:1] != (batch,) or answers.ndim > 2 or answers.dtype.kind not in "fi":
                shape = answers.shape
                raise SysgymError(f"{self._shown}: not a policy; {batch} answers have the shape {shape}")
        self.chooses = found.action.ndim == 1

    def __call__(self, observations: NDArray[Any], masks: NDArray[Any] | None = None) -> Decided:
        """Return the decisions for a batch; arguments as for :class:`.graph.PolicyGraph`."""
        feed: dict[str, NDArray[Any]] = {"observation": np.asarray(observations, np.float32)}
        if self.masked:
            feed["action_mask"] = np.asarray(masks, np.bool_)
        try:
            found = self._session.run(self._names, feed)
        except Exception as error:  # the runtime's exceptions have no common base
            raise SysgymError(f"{self._shown}: its policy cannot be played ({str(error)[:300]})") from error
        return Decided(found[0], found[-1])

    def meta(self) -> CheckpointMeta:
        """Return the metadata of the policy's checkpoint.

        Raises:
            SysgymError: If the file was not exported from a checkpoint.
        """
        if self.properties.get("format") != FORMAT or "checkpoint_meta" not in self.properties:
            raise SysgymError(f"{self._shown}: not exported from a checkpoint of sysgym ({FORMAT})")
        try:
            return CheckpointMeta.from_json(self.properties["checkpoint_meta"])
        except ValueError as error:
            raise SysgymError(
                f"{self._shown}: its information on the checkpoint is invalid ({error})"
            ) from error


def _check_contents(data: bytes, shown: str) -> None:
    """Check that an untrusted model contains only operators of exported policies, and all weights inline.

    Otherwise the runtime would read weights from any file named in the model, and run infinite loops.

    Raises:
        MissingExtra: If the extra ``export`` is not installed.
        SysgymError: If the model contains anything else.
    """
    try:
        import onnx
        from onnx.external_data_helper import uses_external_data
    except ImportError as error:
        raise MissingExtra(EXTRA, "playing ONNX files") from error
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:  # protobuf raises its own kinds of exceptions
        raise SysgymError(f"{shown}: not a model that ONNX Runtime reads ({error})") from error
    graph = model.graph
    others = sorted({f"{node.domain} {node.op_type}".strip() for node in graph.node} - OPERATORS)
    if others or len(model.functions):
        raise SysgymError(f"{shown}: has operators that no exported policy has ({', '.join(others[:5])})")
    if graph.sparse_initializer or any(uses_external_data(tensor) for tensor in graph.initializer):
        raise SysgymError(f"{shown}: its weights are in another file, which is not supported")
    constants = {tensor.name for tensor in graph.initializer}
    if any(node.op_type in ("Tile", "Reshape") and node.input[1] not in constants for node in graph.node):
        raise SysgymError(f"{shown}: computes a shape, which no exported policy does")
    try:
        shaped = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except Exception as error:  # onnx raises its own kinds of exceptions
        raise SysgymError(f"{shown}: not a model that ONNX Runtime reads ({str(error)[:300]})") from error
    for value in (*shaped.value_info, *shaped.output):
        size = math.prod(one.dim_value or 1 for one in value.type.tensor_type.shape.dim)
        if size > MOST_NUMBERS:
            raise SysgymError(
                f"{shown}: would make {size:,} numbers; at most {MOST_NUMBERS:,} are made at once"
            )


class _Build:
    """Builder of a graph: its nodes and constants."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def node(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        from onnx import helper

        name = output or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def inputs(self, values: str, inputs: Inputs) -> str:
        if inputs.select is not None:
            values = self.node("Gather", values, self.constant(inputs.select, np.int64), axis=1)
        for kind, bound in (
            ("Max", inputs.low),
            ("Min", inputs.high),
            ("Sub", inputs.offset),
            ("Mul", inputs.scale),
        ):
            if bound is not None:
                values = self.node(kind, values, self.constant(bound))
        return values

    def mlp(self, values: str, mlp: Mlp) -> str:
        """Add the layers of a network over the last axis."""
        for (weight, bias), activation in zip(layers(mlp), mlp.activations, strict=True):
            product = self.node("MatMul", values, self.constant(weight.T))
            values = self.node("Add", product, self.constant(bias))
            if activation != "identity":
                values = self.node({"tanh": "Tanh", "relu": "Relu"}[activation], values)
        return values

    def set_net(self, flat: str, net: SetNet) -> str:
        shape = net.shape
        cut = shape.n_rows * shape.row_size
        rows = self.node("Slice", flat, *(self.constant([at], np.int64) for at in (0, cut, 1)))
        rows = self.node("Reshape", rows, self.constant([-1, shape.n_rows, shape.row_size], np.int64))
        members = rows
        if shape.context_size:
            ends = (cut, shape.observation_size, 1)
            context = self.node("Slice", flat, *(self.constant([at], np.int64) for at in ends))
            members = self.node("Concat", rows, self.beside_all(context, shape), axis=2)
        exists = self.node("Slice", rows, *(self.constant([at], np.int64) for at in (0, 1, 2)))
        codes = self.node("Mul", self.mlp(members, net.encoder), exists)
        axis = self.constant([1], np.int64)
        count = self.node("Max", self.node("ReduceSum", exists, axis, keepdims=0), self.constant([1.0]))
        mean = self.node("Div", self.node("ReduceSum", codes, axis, keepdims=0), count)
        largest = self.node("ReduceMax", codes, axes=[1], keepdims=0)
        pooled = self.beside_all(self.node("Concat", mean, largest, axis=1), shape)
        scores = self.mlp(self.node("Concat", codes, pooled, axis=2), net.head)
        scores = self.node("Transpose", scores, perm=[0, 2, 1])
        return self.node("Reshape", scores, self.constant([-1, shape.n_actions], np.int64))

    def beside_all(self, values: str, shape: Any) -> str:
        """Repeat values common to the set for every row."""
        lifted = self.node("Unsqueeze", values, self.constant([1], np.int64))
        return self.node("Tile", lifted, self.constant([1, shape.n_rows, 1], np.int64))

    def choice(self, scores: str, choice: Choice) -> None:
        if choice.masked:
            self.node("Where", "action_mask", scores, self.constant(-np.inf), output="scores")
        else:
            self.node("Identity", scores, output="scores")
        self.node("ArgMax", "scores", output="action", axis=1, keepdims=0)

    def rates(self, values: str, scale: ActionScale | None) -> None:
        if scale is None:
            self.node("Identity", values, output="action")
            return
        bounded = self.node("Clip", values, self.constant(-1.0), self.constant(1.0))
        share = self.node("Mul", self.node("Add", bounded, self.constant(1.0)), self.constant(0.5))
        if scale.name == "log":
            power = self.node("Exp", self.node("Mul", share, self.constant(np.log(scale.high / scale.low))))
            rates = self.node("Mul", power, self.constant(scale.low))
        else:
            grown = self.node("Mul", share, self.constant(scale.high - scale.low))
            rates = self.node("Add", grown, self.constant(scale.low))
        self.node("Clip", rates, self.constant(scale.low), self.constant(scale.high), output="action")
