"""Links of the repository's pages, which lead to other places on the site.

On a forge, a page links to files of the repository by relative paths. On the site, pages lead to pages, a
scenario's or suite's file to its page, and any other file to a page with its text, under ``source/``.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from pathlib import Path

from docs.website.markdown import Pages, code, page, replace_links

_LANGUAGES = {".py": "python", ".toml": "toml", ".sh": "bash", ".c": "c", ".cc": "cpp", ".json": "json"}


class Links:
    """Translation of links from the repository to the site.

    Attributes:
        needed: Files of the repository that pages link to and that need a page with their text.
    """

    def __init__(self, root: Path, places: Mapping[str, str]) -> None:
        """Prepare.

        Args:
            root: Folder of the repository.
            places: Path of a file in the repository -> its page on the site.
        """
        self._root = root
        self._places = dict(places)
        self.needed: set[str] = set()

    def on_site(self, text: str, origin: str) -> str:
        """Return a page's text with its links translated.

        Args:
            text: Markdown.
            origin: Path of the page in the repository, to which its links are relative.
        """
        return replace_links(text, lambda target: self.translate(target, origin))

    def translate(self, target: str, origin: str) -> str:
        """Return where a link leads on the site; see :meth:`on_site`.

        Raises:
            FileNotFoundError: If there is no such file in the repository.
        """
        if target.startswith(("http:", "https:", "mailto:", "#", "/")):
            return target
        path, _, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
        if (self._root / path).is_dir():
            path = posixpath.join(path, "README.md")
        if not (self._root / path).is_file():
            raise FileNotFoundError(f"{origin} links to {target}, which is not in the repository")
        if path.startswith("docs/images/"):
            return f"/{path.removeprefix('docs/')}"
        if path not in self._places:
            self.needed.add(path)
            return f"/source/{path}.md"
        return f"/{self._places[path]}" + (f"#{anchor}" if anchor else "")

    def sources(self) -> Pages:
        """Return the pages with the texts of the needed files, and of those that these link to."""
        pages: Pages = {}
        while self.needed - pages.keys():
            for path in sorted(self.needed - pages.keys()):
                pages[path] = self._source(path)
        return {f"source/{path}.md": text for path, text in pages.items()}

    def _source(self, path: str) -> str:
        text = (self._root / path).read_text(encoding="utf-8")
        if path.endswith(".md"):
            return "---\norphan: true\n---\n\n" + self.on_site(text, path)
        language = _LANGUAGES.get(posixpath.splitext(path)[1], "text")
        return "---\norphan: true\n---\n\n" + page(f"`{path}`", code(text, language))
