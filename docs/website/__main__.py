"""``python -m docs.website``: build the documentation site, and check it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from docs.website.build import ROOT, place_pictures, run_sphinx, write_live_pages, write_sources
from docs.website.check import check
from docs.website.pictures import draw_all


def main() -> None:
    """Write the sources, run Sphinx, check the site, and print what there is."""
    if importlib.util.find_spec("sphinx") is None:
        sys.exit(
            "error: Sphinx is not installed; `make docs` installs it, and so does: pip install -e '.[docs]'"
        )
    started = time.monotonic()
    folder = ROOT / "build" / "docs"
    source, pictures, site = folder / "source", folder / "pictures", folder / "html"
    # Sphinx needs the names of the animations, not what is in them.
    with ThreadPoolExecutor(1) as beside:
        print("[docs] animations of episodes", flush=True)
        drawing = beside.submit(draw_all, pictures)
        n_pages = write_sources(source, pictures)
        print(f"[docs] {n_pages} pages through Sphinx", flush=True)
        try:
            run_sphinx(source, site)
        except subprocess.CalledProcessError:
            sys.exit("error: Sphinx found the problems above")
        drawing.result()
    place_pictures(pictures, source, site)
    write_live_pages(site)
    found = check(site)
    for problem in found.problems:
        print(problem, file=sys.stderr)
    if found.problems:
        sys.exit(f"error: {len(found.problems)} problems in {site}")
    print(
        f"[docs] {found.pages} pages, {found.links} links inside the site, {found.images} pictures,"
        f" {found.size_bytes / 1e6:.1f} MB, {time.monotonic() - started:.0f} s: {site / 'index.html'}"
    )


if __name__ == "__main__":
    main()
