"""Conversion of Matplotlib's SVG to an element of a page, with unique ids and the page's font and colour."""

from __future__ import annotations

import re
from xml.etree import ElementTree

INK = "#0a0b0c"
"""Placeholder of the page's text colour until the picture is written."""

FONT = "system-ui, sans-serif"

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_REFERENCE = re.compile(r"url\(#([^)]*)\)")
_FONT = re.compile(r"(?:(?P<style>italic|oblique)\s+)?(?:(?P<weight>\w+)\s+)?(?P<size>[\d.]+px)\s.*")
_LEFT_OUT = frozenset({"metadata", "style"})


def part_of_page(svg: str, *, prefix: str, description: str, width_px: float) -> str:
    """Return a picture as an element for a page with several pictures.

    Styles become attributes, so that a page whose policy forbids inline styles can show it.

    Args:
        svg: Matplotlib's output, with texts as texts.
        prefix: Prefix of all ids; a slug.
        description: Alternative text.
        width_px: Natural width, pixels.
    """
    root = ElementTree.fromstring(_NOT_XML.sub("\ufffd", svg))
    for parent in list(root.iter()):
        for child in list(parent):
            if _local(child.tag) in _LEFT_OUT:
                parent.remove(child)
    for element in root.iter():
        element.tag = _local(element.tag)
        attributes = {_local(name): value for name, value in element.attrib.items()}
        attributes |= _declarations(attributes.pop("style", ""))
        element.attrib.clear()
        element.attrib.update({name: _renamed(name, value, prefix) for name, value in attributes.items()})
    view = root.attrib["viewBox"]
    root.attrib.clear()
    root.attrib.update(
        {
            "role": "img",
            "aria-label": description,
            "viewBox": view,
            "width": f"{width_px:.0f}",
            "stroke-linejoin": "round",
            "stroke-linecap": "butt",
        }
    )
    return ElementTree.tostring(root, encoding="unicode")


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _declarations(style: str) -> dict[str, str]:
    """Return the declarations of a style as presentation attributes."""
    found: dict[str, str] = {}
    for declaration in style.split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name == "font" and (
            match := _FONT.fullmatch(value)
        ):  # the shorthand of older versions of Matplotlib
            found |= {f"font-{part}": text for part, text in match.groupdict().items() if text}
            found["font-family"] = FONT
        elif name:
            found[name] = FONT if name == "font-family" else value
    return found


def _renamed(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return f"{prefix}-{value}"
    if name == "href":
        return f"#{prefix}-{value.removeprefix('#')}"
    if value == INK:
        return "currentColor"
    return _REFERENCE.sub(rf"url(#{prefix}-\1)", value)
