"""Removal of what the built site does not need: debuggers' maps, indentation, comments, unstyled markup."""

from __future__ import annotations

import io
import re
from pathlib import Path

from PIL import Image

_AS_IT_IS = re.compile(r"<(pre|textarea|script|style)\b.*?</\1>", re.DOTALL)
_INDENTATION = re.compile(r"\n\s+")
_MAP = re.compile(r"\n?(?://[#@] sourceMappingURL=\S+|/\*[#@] sourceMappingURL=.*?\*/)\s*$")

# White space, names and punctuation have the colour of the text around them. Sphinx keeps the words of inline
# code from being broken, which matters for those with a hyphen or a slash only.
_PLAIN = re.compile(r'<span class="(?:w|n|p)">([^<]*)</span>|<span class="pre">([^<\-/?\s]*)</span>')

_UNSEEN = re.compile(
    r'<!--.*?-->| class="(?:row-(?:odd|even)|std std-doc)"|(?<=<code class=")docutils ', re.DOTALL
)
"""Comments, and names of table rows, links and code for which no style sheet has a rule."""

COLOURS = 256
"""Colours of a picture on the site; plots have fewer."""


def shrink(site: Path) -> None:
    """Remove what no reader sees from a site: a quarter of its size.

    Args:
        site: Folder of the HTML pages.
    """
    for file in site.rglob("*.map"):
        file.unlink()
    for file in [*site.rglob("*.js"), *site.rglob("*.css")]:
        _rewrite(file, _MAP.sub("\n", file.read_text(encoding="utf-8")))
    for file in site.rglob("*.html"):
        page = _UNSEEN.sub("", file.read_text(encoding="utf-8"))
        _rewrite(file, without_indentation(_PLAIN.sub(lambda found: found[1] or found[2] or "", page)))
    for file in site.rglob("_images/*.png"):
        small = in_few_colours(file.read_bytes())
        if len(small) < file.stat().st_size:
            file.write_bytes(small)


def in_few_colours(picture: bytes) -> bytes:
    """Return a PNG with at most :data:`COLOURS` colours."""
    with Image.open(io.BytesIO(picture)) as opened:
        if opened.mode != "RGB" and opened.convert("RGBA").getchannel("A").getextrema() != (255, 255):
            return picture  # it is transparent somewhere
        small = opened.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    written = io.BytesIO()
    small.save(written, "png", optimize=True)
    return written.getvalue()


def without_indentation(page: str) -> str:
    """Return a page whose lines begin at the margin, without empty ones; code and scripts are kept."""
    begin, kept = 0, []
    for found in _AS_IT_IS.finditer(page):
        kept += [_INDENTATION.sub("\n", page[begin : found.start()]), found[0]]
        begin = found.end()
    return "".join([*kept, _INDENTATION.sub("\n", page[begin:])])


def _rewrite(file: Path, text: str) -> None:
    if file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")
