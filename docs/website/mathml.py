"""Mathematics as MathML, which browsers draw themselves: no script, and nothing to download."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import SphinxError


def _write(translator: Any, node: nodes.Node, *, as_block: bool) -> None:
    try:
        formula = tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        raise SphinxError(f"{node.source}, line {node.line}: not a formula: {error}") from error
    # Not the class "math": themes style it for MathJax.
    tag = "div" if as_block else "span"
    translator.body.append(f'<{tag} class="formula">{formula}</{tag}>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, Any]:
    """Register the renderer ``mathml``."""
    app.add_html_math_renderer(
        "mathml",
        (lambda translator, node: _write(translator, node, as_block=False), None),
        (lambda translator, node: _write(translator, node, as_block=True), None),
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
