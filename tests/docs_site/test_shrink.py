"""What is taken from the built site, and what has to stay."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

from docs.website.shrink import COLOURS, in_few_colours, shrink, without_indentation


def png(pixels: np.ndarray) -> bytes:
    written = io.BytesIO()
    Image.fromarray(pixels).save(written, "png")
    return written.getvalue()


def test_code_keeps_its_indentation_and_its_words() -> None:
    page = (
        "<div>\n\n   <p>a\n  b</p>\n<pre>x\n    y\n\n  z</pre>\n  <script>\n  'a'\n\n  </script>\n   </div>"
    )
    kept = "<div>\n<p>a\nb</p>\n<pre>x\n    y\n\n  z</pre>\n<script>\n  'a'\n\n  </script>\n</div>"
    assert without_indentation(page) == kept


def test_marks_without_a_style_go_and_others_stay(tmp_path: Path) -> None:
    file = tmp_path / "index.html"
    line = '<pre><span class="k">def</span><span class="w"> </span><span class="n">f</span>'
    table = '<!-- of\nours --><tr class="row-odd"><td class="text-right">1</td></tr>'
    code = (
        '<code class="docutils literal"><span class="pre">a-b</span> <span class="pre">c_d</span></code>'
        '<a><span class="std std-doc">e</span></a><table class="docutils"></table>'
    )
    file.write_text(f"{line}</pre>{code}{table}")
    (tmp_path / "a.js").write_text("run();\n//# sourceMappingURL=a.js.map\n")
    (tmp_path / "a.js.map").write_text("{}")
    shrink(tmp_path)
    assert file.read_text() == (
        '<pre><span class="k">def</span> f</pre><code class="literal"><span class="pre">a-b</span> c_d</code>'
        '<a><span>e</span></a><table class="docutils"></table>'
        '<tr><td class="text-right">1</td></tr>'
    )
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["a.js", "index.html"]
    assert (tmp_path / "a.js").read_text() == "run();\n"


def test_pictures_have_fewer_shades_and_the_same_look() -> None:
    shades = np.arange(120 * 160 * 3).reshape(120, 160, 3) * 256 // (120 * 160 * 3)
    picture = png(shades.astype(np.uint8))
    small = Image.open(io.BytesIO(in_few_colours(picture)))
    assert len(small.getcolors() or ()) <= COLOURS
    assert np.abs(np.asarray(small.convert("RGB"), int) - shades).mean() < 3.0
    see_through = png(np.dstack([shades, shades[..., :1] // 2]).astype(np.uint8))
    assert in_few_colours(see_through) == see_through
