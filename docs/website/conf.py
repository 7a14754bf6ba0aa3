"""Configuration of Sphinx. ``docs.website.build`` writes the sources that it reads."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import sysgym
from docs.website.environments import environments, slug

project = "sysgym"
author = "The sysgym contributors"
copyright = "2026, the sysgym contributors"
version = release = sysgym.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "docs.website.mathml",
]
language = "en"
highlight_language = "none"  # blocks without a language are drawings and output
default_role = "literal"
suppress_warnings = ["myst.header"]  # docstrings and model cards may skip a level

myst_enable_extensions = ["amsmath", "colon_fence"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # notebooks come with their outputs
nb_ipywidgets_js: dict[str, Any] = {}  # a CDN otherwise

autodoc_typehints = "signature"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
autodoc_member_order = "bysource"
napoleon_use_ivar = True
napoleon_attr_annotations = False  # signatures have the types
napoleon_numpy_docstring = False
toc_object_entries_show_parents = "hide"
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "sysgym"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_domain_indices = False
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
# Pages of what has a name have no list of their siblings, of which there are hundreds: with it they are three
# times as large. Their chapter's page lists them, and the breadcrumbs lead there.
_WITHOUT_SIDEBAR = ("transports", "agents", "policies", "scenarios", "suites", "source")
html_sidebars: dict[str, list[str]] = {"index": [], **{f"{folder}/**": [] for folder in _WITHOUT_SIDEBAR}}
html_context = {"default_mode": "auto"}
html_theme_options = {
    "collapse_navigation": True,
    "navigation_depth": 3,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
    "logo": {"text": "sysgym"},
}


def _short_documentation(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Leave the first line of an environment's docstring, which is Markdown and has a page of its own."""
    pages = {entry: slug(one.env_id) for _, one in environments() if (entry := one.entry_point)}
    if what == "class" and "\n## " in (inspect.getdoc(thing) or ""):
        page = pages.get(f"{thing.__module__}:{thing.__qualname__}")
        more = f"All about it is on the page :doc:`/environments/{page}`." if page else ""
        lines[:] = [lines[0], "", more, ""]


def setup(app: Any) -> None:
    """Connect what is special here."""
    app.connect("autodoc-process-docstring", _short_documentation, priority=1)
