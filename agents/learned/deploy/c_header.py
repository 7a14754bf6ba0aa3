"""Export of policies as a C header: C99 and C++, without allocation or libraries other than math.h.

:func:`mlp_header` writes a plain network; :func:`policy_header` writes a whole policy, including the
preprocessing of the observation and the postprocessing of the output.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.deploy.graph import Choice, Inputs, PolicyGraph, layers, n_inputs, parts
from sysgym.agents.learned.deploy.quantize import QuantizedLayer
from sysgym.agents.learned.policy import Mlp
from sysgym.agents.learned.sets.network import Network, SetNet
from sysgym.envs.action_scale import ActionScale
from sysgym.scenarios.errors import SysgymError, UnknownName

WEIGHTS = ("float32", "int8")

INT8_LIMIT_BYTES = 4096
"""Default limit of the size of 8-bit weights: a page of memory."""

_ACTIVATION = {"tanh": "tanhf({0})", "relu": "({0} > 0.0f ? {0} : 0.0f)"}
_LINE = 110


def table_bytes(network: Network, weights: str) -> int:
    """Return the size in bytes of a network's tables in C: weights, scales of weights, and biases."""
    if weights not in WEIGHTS:
        raise UnknownName("form of weights", weights, WEIGHTS)
    each = 4 if weights == "float32" else 1
    per_row = 4 if weights == "float32" else 8
    return sum(each * w.size + per_row * b.size for mlp in parts(network) for w, b in layers(mlp))


def choose_weights(network: Network, weights: str | None, limit_bytes: int | None) -> str:
    """Return a form of weights within the size limit: the requested one, or the first of WEIGHTS that fits.

    Args:
        network: Network to write.
        weights: Requested form; None: any form that fits.
        limit_bytes: Limit of the tables; None: unlimited for float32, :data:`INT8_LIMIT_BYTES` for int8.

    Raises:
        SysgymError: If no form fits.
        UnknownName: If there is no such form.
    """
    tried = WEIGHTS if weights is None else (weights,)
    for form in tried:
        limit = INT8_LIMIT_BYTES if limit_bytes is None and form == "int8" else limit_bytes
        if limit is None or table_bytes(network, form) <= limit:
            return form
    sizes = " and ".join(f"{table_bytes(network, form)} bytes as {form}" for form in tried)
    limit = INT8_LIMIT_BYTES if limit_bytes is None else limit_bytes
    raise SysgymError(
        f"the network has {sizes}, the limit is {limit}: raise --bytes-limit, or distill a smaller student"
    )


def policy_header(
    graph: PolicyGraph, *, name: str = "policy", weights: str = "float32", about: Sequence[str] = ()
) -> str:
    """Return the header of a whole policy.

    For the name ``policy``, the header defines ``POLICY_INPUTS``, ``POLICY_OUTPUTS`` and one of ::

        void policy(const float *observation, float *action);
        int policy(const float *observation, float *scores);
        int policy(const float *observation, const unsigned char *action_mask, float *scores);

    Args:
        graph: The policy.
        name: Name of the function, a C identifier.
        weights: ``"float32"`` or ``"int8"``.
        about: Lines of the header comment.

    Raises:
        SysgymError: If the name is not an identifier or a weight is not finite.
    """
    lines = _network(graph.network, f"{name}_network", weights)
    lines += [*_inputs(graph.inputs, name), ""]
    if isinstance(graph.outputs, Choice):
        lines += _choice(graph.outputs, name)
    else:
        lines += _rates(graph.outputs, name, graph.n_outputs)
    sizes = {"INPUTS": graph.inputs.size, "OUTPUTS": graph.n_outputs}
    return _wrapped(name, lines, sizes, about)


def mlp_header(
    layer_weights: Sequence[NDArray[Any]],
    biases: Sequence[NDArray[Any]],
    activations: Sequence[str],
    *,
    name: str = "network",
    weights: str = "float32",
    about: Sequence[str] = (),
) -> str:
    """Return the header of a plain network: ``void network(const float *input, float *output)``.

    Args:
        layer_weights: Weights of each layer, shape (n_out, n_in).
        biases: Biases of each layer, shape (n_out,).
        activations: Activation of each layer: ``"identity"``, ``"relu"`` or ``"tanh"``.
        name: Name of the function, a C identifier.
        weights: ``"float32"`` or ``"int8"``.
        about: Lines of the header comment.

    Raises:
        SysgymError: If the name is not an identifier or a weight is not finite.
    """
    mlp = Mlp(
        tuple(np.asarray(weight, np.float32) for weight in layer_weights),
        tuple(np.asarray(bias, np.float32) for bias in biases),
        tuple(activations),
    )
    sizes = {"INPUTS": mlp.weights[0].shape[1], "OUTPUTS": mlp.weights[-1].shape[0]}
    return _wrapped(name, _mlp(mlp, name, weights), sizes, about)


def _wrapped(name: str, lines: list[str], sizes: dict[str, int], about: Sequence[str]) -> str:
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise SysgymError(f'"{name}" is not a valid name of a C function')
    guard = f"SYSGYM_{name.upper()}_H"
    comment = ["/*", *(f" * {_in_comment(line)}".rstrip() for line in about), " */"] if about else []
    return "\n".join(
        [
            *comment,
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            "#include <math.h>",
            "#include <stdint.h>",
            "",
            *(f"#define {name.upper()}_{what} {size}" for what, size in sizes.items()),
            "",
            *lines,
            "",
            f"#endif /* {guard} */",
            "",
        ]
    )


def _in_comment(line: str) -> str:
    """Return a line that cannot end the comment that contains it.

    The text of a checkpoint is untrusted. Before a compiler searches for the end of a comment, it replaces
    ``??/`` by a backslash and joins lines that end in a backslash.
    """
    return re.sub(r"[^ -~]|[\\?]", "_", line).replace("*/", "* /").replace("/*", "/ *")


def _network(network: Network, name: str, weights: str) -> list[str]:
    if not isinstance(network, SetNet):
        return _mlp(network, name, weights)
    encoder, head = (
        _mlp(mlp, f"{name}_{part}", weights)
        for mlp, part in ((network.encoder, "encoder"), (network.head, "head"))
    )
    return [*encoder, "", *head, "", *_set_net(network, name)]


def _mlp(mlp: Mlp, name: str, weights: str) -> list[str]:
    """Return the lines of the tables, and of a function that evaluates the layers."""
    if weights not in WEIGHTS:
        raise UnknownName("form of weights", weights, WEIGHTS)
    tables: list[str] = []
    body: list[str] = []
    source = "input"
    for index, ((weight, bias), activation) in enumerate(zip(layers(mlp), mlp.activations, strict=True)):
        n_out, n_in = weight.shape
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise SysgymError(f"layer {index} has a weight that is not finite")
        last = index == len(mlp.weights) - 1
        target = "output" if last else f"hidden_{index}"
        if weights == "int8":
            quantized = QuantizedLayer.of(weight)
            tables += _table("int8_t", f"{name}_weight_{index}", quantized.integers.T.ravel(), str)
            tables += _table("float", f"{name}_scale_{index}", quantized.scale, _number)
        else:
            tables += _table("float", f"{name}_weight_{index}", weight.T.ravel(), _number)
        tables += _table("float", f"{name}_bias_{index}", bias, _number)
        body += [] if last else [f"    float {target}[{n_out}];"]
        # With outputs in the inner loop, a compiler can vectorise without changing the order of summation.
        table = f"{name}_weight_{index}[j * {n_out} + i]"
        term, factor = table, ""
        if weights == "int8":
            term, factor = f"(float){table}", f" * {name}_scale_{index}[i]"
        sum_ = f"{target}[i]{factor} + {name}_bias_{index}[i]"
        body += [
            f"    for (int i = 0; i < {n_out}; i++)",
            f"        {target}[i] = 0.0f;",
            f"    for (int j = 0; j < {n_in}; j++)",
            f"        for (int i = 0; i < {n_out}; i++)",
            f"            {target}[i] += {term} * {source}[j];",
            f"    for (int i = 0; i < {n_out}; i++) {{",
            f"        const float sum = {sum_};",
            f"        {target}[i] = {_ACTIVATION.get(activation, '{0}').format('sum')};",
            "    }",
        ]
        source = target
    return [*tables, "", f"static inline void {name}(const float *input, float *output) {{", *body, "}"]


def _set_net(net: SetNet, name: str) -> list[str]:
    shape = net.shape
    code, row, context = net.encoder.weights[-1].shape[0], shape.row_size, shape.context_size
    return [
        f"static inline void {name}(const float *input, float *scores) {{",
        f"    float member[{max(row + context, n_inputs(net.head))}];",
        f"    float codes[{shape.n_rows}][{code}], mean[{code}], largest[{code}], answer[{shape.heads}];",
        "    float count = 0.0f;",
        f"    for (int k = 0; k < {code}; k++) {{",
        "        mean[k] = 0.0f;",
        "        largest[k] = -INFINITY;",
        "    }",
        f"    for (int i = 0; i < {shape.n_rows}; i++) {{",
        f"        const float exists = input[i * {row}];",
        f"        for (int k = 0; k < {row}; k++)",
        f"            member[k] = input[i * {row} + k];",
        *(
            (
                f"        for (int k = 0; k < {context}; k++)",
                f"            member[{row} + k] = input[{shape.n_rows * row} + k];",
            )
            if context
            else ()
        ),
        f"        {name}_encoder(member, codes[i]);",
        "        count += exists;",
        f"        for (int k = 0; k < {code}; k++) {{",
        "            codes[i][k] *= exists;",
        "            mean[k] += codes[i][k];",
        "            largest[k] = codes[i][k] > largest[k] ? codes[i][k] : largest[k];",
        "        }",
        "    }",
        f"    for (int k = 0; k < {code}; k++)",
        "        mean[k] /= count > 1.0f ? count : 1.0f;",
        f"    for (int i = 0; i < {shape.n_rows}; i++) {{",
        f"        for (int k = 0; k < {code}; k++) {{",
        "            member[k] = codes[i][k];",
        f"            member[{code} + k] = mean[k];",
        f"            member[{2 * code} + k] = largest[k];",
        "        }",
        f"        {name}_head(member, answer);",
        f"        for (int k = 0; k < {shape.heads}; k++)",
        f"            scores[k * {shape.n_rows} + i] = answer[k];",
        "    }",
        "}",
    ]


def _inputs(inputs: Inputs, name: str) -> list[str]:
    """Return the lines of the tables, and of a function from the observation to the network's inputs."""
    tables: list[str] = []

    def per_input(values: NDArray[Any] | None, what: str) -> str | None:
        """Return the C expression for the value of each input, a constant if all values are equal."""
        if values is None:
            return None
        if (values == values[0]).all():
            return _number(values[0])
        tables.extend(_table("float", f"{name}_{what}", values, _number))
        return f"{name}_{what}[i]"

    source = "observation[i]"
    if inputs.select is not None:
        tables += _table("int32_t", f"{name}_select", inputs.select, str)
        source = f"observation[{name}_select[i]]"
    body = [f"        float value = {source};"]
    for what, values, line in (
        ("low", inputs.low, "        value = value > {0} ? value : {0};"),
        ("high", inputs.high, "        value = value < {0} ? value : {0};"),
        ("offset", inputs.offset, "        value -= {0};"),
        ("factor", inputs.scale, "        value *= {0};"),
    ):
        expression = per_input(values, what)
        body += [] if expression is None else [line.format(expression)]
    return [
        *tables,
        "",
        f"static inline void {name}_inputs(const float *observation, float *input) {{",
        f"    for (int i = 0; i < {inputs.n_used}; i++) {{",
        *body,
        "        input[i] = value;",
        "    }",
        "}",
        "",
        f"#define {name.upper()}_NETWORK_INPUTS {inputs.n_used}",
    ]


def _rates(scale: ActionScale | None, name: str, n_outputs: int) -> list[str]:
    scaling = [] if scale is None else _scaling(scale, n_outputs)
    sizes = f"observation: {name.upper()}_INPUTS numbers; action: {name.upper()}_OUTPUTS"
    return [
        f"/* {sizes}, as it is set. */",
        f"static inline void {name}(const float *observation, float *action) {{",
        f"    float input[{name.upper()}_NETWORK_INPUTS];",
        f"    {name}_inputs(observation, input);",
        f"    {name}_network(input, action);",
        *scaling,
        "}",
    ]


def _scaling(scale: ActionScale, n_outputs: int) -> list[str]:
    low, high = _number(scale.low), _number(scale.high)
    if scale.name == "log":
        rate = f"{low} * expf(share * {_number(np.log(scale.high / scale.low))})"
    else:
        rate = f"{low} + share * {_number(scale.high - scale.low)}"
    return [
        f"    for (int i = 0; i < {n_outputs}; i++) {{",
        "        const float bounded = action[i] < -1.0f ? -1.0f : action[i] > 1.0f ? 1.0f : action[i];",
        "        const float share = 0.5f * (bounded + 1.0f);",
        f"        const float rate = {rate};",
        f"        action[i] = rate < {low} ? {low} : rate > {high} ? {high} : rate;",
        "    }",
    ]


def _choice(choice: Choice, name: str) -> list[str]:
    mask = ", const unsigned char *action_mask" if choice.masked else ""
    forbidden = (
        ["        if (!action_mask[i])", "            scores[i] = -INFINITY;"] if choice.masked else []
    )
    return [
        f"/* Returns the action with the highest score; scores: {name.upper()}_OUTPUTS numbers. */",
        f"static inline int {name}(const float *observation{mask}, float *scores) {{",
        f"    float input[{name.upper()}_NETWORK_INPUTS];",
        "    int best = 0;",
        f"    {name}_inputs(observation, input);",
        f"    {name}_network(input, scores);",
        f"    for (int i = 0; i < {name.upper()}_OUTPUTS; i++) {{",
        *forbidden,
        "        if (scores[i] > scores[best])",
        "            best = i;",
        "    }",
        "    return best;",
        "}",
    ]


def _table(kind: str, name: str, values: Any, text: Callable[[Any], str]) -> list[str]:
    """Return the lines of a constant array, wrapped."""
    lines, line = [], "   "
    for value in values:
        word = f" {text(value)},"
        if len(line) + len(word) > _LINE:
            lines.append(line)
            line = "   "
        line += word
    return [f"static const {kind} {name}[{len(values)}] = {{", *lines, line, "};"]


def _number(value: Any) -> str:
    """Return a float literal in C from which the value is read back exactly."""
    text = f"{float(np.float32(value)):.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"
