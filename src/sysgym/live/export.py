"""Export of a run as one HTML file with styles, scripts and frames, which opens without a server."""

from __future__ import annotations

import base64
import html
import json
import zlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from sysgym.live.frames import Frame, thinned

MOST_FRAMES = 800
"""Maximum number of frames of a page; a longer run is thinned."""

SCRIPTS = (
    "vendor/uPlot.iife.min.js",
    "format.js",
    "panels.js",
    "network.js",
    "charts.js",
    "source.js",
    "page.js",
)
"""Scripts of the page, in the order in which they are loaded."""

STYLES = ("vendor/uPlot.min.css", "live.css")

# The page may load nothing: its scripts and styles are inline.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


def static_text(name: str) -> str:
    """Return the text of one of the page's static files."""
    return files("sysgym.live").joinpath("static", *name.split("/")).read_text(encoding="utf-8")


def live_page() -> str:
    """Return the page of a server, which loads its static files and receives the frames of a session."""
    styles = "".join(f'<link rel="stylesheet" href="static/{name}">\n' for name in STYLES)
    scripts = "".join(f'<script src="static/{name}"></script>\n' for name in SCRIPTS)
    return _filled(styles, scripts, policy="", title="sysgym live")


def exported_page(header: Mapping[str, Any], frames: Sequence[Frame], most_frames: int = MOST_FRAMES) -> str:
    """Return one HTML file that shows a run.

    Args:
        header: Description of the run.
        frames: Frames of the run.
        most_frames: Maximum number of frames; more are thinned, with the events of omitted frames kept.
    """
    styles = "".join(f"<style>\n{static_text(name)}</style>\n" for name in STYLES)
    scripts = "".join(f"<script>\n{static_text(name)}</script>\n" for name in SCRIPTS)
    run = {key: value for key, value in header.items() if key not in ("resolved", "contenders")}
    data = packed(run, thinned(list(frames), most_frames))
    scripts = f'<script type="text/plain" id="recording">{data}</script>\n' + scripts
    names = " and ".join(lane["name"] for lane in header["lanes"])
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
    return _filled(styles, scripts, policy=policy, title=f"{header['scenario']}: {names}")


def packed(header: Mapping[str, Any], frames: Sequence[Frame]) -> str:
    """Return a run as text for a page: JSON by columns, compressed (RFC 1951), in base64.

    The values of a key in successive frames are adjacent, and integers are stored as differences, so that
    each value takes only a few bits.
    """
    lanes = [
        {
            "values": {
                key: _column([frame.lanes[number]["values"].get(key) for frame in frames])
                for key in frames[0].lanes[number]["values"]
            },
            "events": [frame.lanes[number]["events"] for frame in frames],
        }
        for number in range(len(frames[0].lanes))
    ]
    data = {
        "header": dict(header),
        "times": [frame.time for frame in frames],
        "changes": [frame.changes for frame in frames],
        "lanes": lanes,
    }
    text = json.dumps(data, separators=(",", ":"), allow_nan=False).encode()
    packer = zlib.compressobj(9, wbits=-15)
    return base64.b64encode(packer.compress(text) + packer.flush()).decode()


def _column(values: list[Any]) -> dict[str, Any]:
    """Return the values of a key in all frames: differences for integers, otherwise the values themselves."""
    if all(type(value) is int for value in values):
        return {"whole": _differences(values)}
    lists = all(isinstance(value, list) and len(value) == len(values[0]) for value in values)
    if lists and all(type(one) is int for value in values for one in value):
        return {"wholes": [_differences(list(column)) for column in zip(*values, strict=True)]}
    return {"any": values}


def _differences(values: list[int]) -> list[int]:
    return [after - before for before, after in zip([0, *values[:-1]], values, strict=True)]


def _filled(styles: str, scripts: str, *, policy: str, title: str) -> str:
    page = static_text("page.html")
    for mark, text in (
        ("<!-- policy -->", policy),
        ("<!-- title -->", html.escape(title)),
        ("<!-- styles -->", styles),
        ("<!-- scripts -->", scripts),
    ):
        before, _, after = page.partition(mark)
        page = before + text + after
    return page
