"""Export of the learned law: its network, without the transport."""

from __future__ import annotations

import hashlib
import json
from importlib import metadata
from os import PathLike
from pathlib import Path

import numpy as np

from sysgym.agents.learned.congestion.law import Law
from sysgym.agents.learned.congestion.neural.agent import FORM as LAW_FORM
from sysgym.agents.learned.deploy.graph import Inputs, PolicyGraph
from sysgym.agents.learned.deploy.source import Source
from sysgym.agents.learned.policy import Mlp
from sysgym.emulator.packets.transports.searched.neural import (
    FIRST_WINDOW,
    HIDDEN_BIAS,
    HIDDEN_WEIGHTS,
    INPUTS,
    N_HIDDEN,
    N_INPUTS,
    N_OUTPUTS,
    N_PARAMETERS,
    OUTPUT_BIAS,
    OUTPUT_WEIGHTS,
    OUTPUTS,
)

FORMAT = "sysgym-onnx-law-1"


def law_graph(law: Law) -> PolicyGraph:
    """Return the network that a flow evaluates once per round trip; outputs are logarithms in [-1, 1]."""
    flat = np.array(law.parameters, np.float32)
    weights = (
        flat[HIDDEN_WEIGHTS:HIDDEN_BIAS].reshape(N_HIDDEN, N_INPUTS),
        flat[OUTPUT_WEIGHTS:OUTPUT_BIAS].reshape(N_OUTPUTS, N_HIDDEN),
    )
    biases = flat[HIDDEN_BIAS:OUTPUT_WEIGHTS], flat[OUTPUT_BIAS:N_PARAMETERS]
    return PolicyGraph(Mlp(weights, biases, ("tanh", "tanh")), Inputs(N_INPUTS), None)


def law_about(law: Law) -> list[str]:
    """Return the header comment: inputs, outputs, and the parameter that is not part of the network."""
    return [
        f"The law neural, trained on {len(law.trained_on)} scenarios; the network, once a round trip.",
        f"log2 of the first window over the usual one: {min(law.parameters[FIRST_WINDOW], 0.0):.9g}.",
        "",
        "Observation:",
        *(f"{index:4d}  {what}" for index, what in enumerate(INPUTS)),
        "Action: log2 of the window's factor, of the growth in packets (halved), of the pace over 2.",
    ]


def law_properties(path: str | PathLike[str], law: Law) -> dict[str, str]:
    """Return the metadata of an ONNX model of the law."""
    return {
        "format": FORMAT,
        "agent": "neural",
        "inputs": json.dumps(INPUTS),
        "outputs": json.dumps(OUTPUTS),
        "first_window": repr(float(law.parameters[FIRST_WINDOW])),
        "versions": json.dumps({**law.versions, "onnx": metadata.version("onnx")}),
        "checkpoint_sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest(),
    }


def read_source(path: Path) -> Source:
    """Read a law for export.

    Raises:
        SysgymError: If the file is not a law.
    """
    law = LAW_FORM.read(path)
    return Source(law_graph(law), law_about(law), lambda: law_properties(path, law), "")
