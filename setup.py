"""List the packages, which pyproject.toml maps to folders, and make links of the README absolute."""

import base64
import hashlib
import re
import tomllib
import zipfile
from pathlib import Path

from setuptools import find_namespace_packages, setup
from setuptools.command.editable_wheel import editable_wheel

ROOT = Path(__file__).resolve().parent
FOLDERS = {"sysgym": "src/sysgym"} | {
    f"sysgym.{name}": name for name in ("agents", "emulator", "envs", "scenarios")
}


def long_description() -> str:
    """Return the README with absolute links to the files of this release.

    A package index shows it without the repository, whose address is `Repository` of `[project.urls]`.
    While there is none, links stay as they are.
    """
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    repository = project.get("urls", {}).get("Repository", "").rstrip("/")
    if not repository:
        return readme
    source = (ROOT / "src" / "sysgym" / "__init__.py").read_text(encoding="utf-8")
    (version,) = re.findall(r'^__version__ = "(.+)"$', source, re.MULTILINE)

    def absolute(link: re.Match[str]) -> str:
        mark, text, target = link.groups()
        return f"{mark}[{text}]({repository}/{'raw' if mark else 'blob'}/v{version}/{target})"

    return re.sub(r"(!?)\[([^\[\]]*)\]\((?!\w+:|#)([^()\s]+)\)", absolute, readme)


class EditableWheel(editable_wheel):  # type: ignore[misc]  # setuptools has no types
    """Editable wheel whose path file also has the folder src.

    The import hook of an editable install is asked last. A folder named sysgym where Python runs, such as a
    clone, is found before it, as a package without code. A package with code on the path is preferred.
    """

    def run(self) -> None:
        """Build the wheel, and add the folder to its path file."""
        super().run()
        (wheel,) = Path(self.dist_dir).glob("sysgym-*.whl")
        with zipfile.ZipFile(wheel) as built:
            files = {name: built.read(name) for name in built.namelist()}
        (path_file,) = (name for name in files if name.endswith(".pth"))
        files[path_file] = files[path_file].rstrip() + f"\n{ROOT / 'src'}\n".encode()
        (record,) = (name for name in files if name.endswith(".dist-info/RECORD"))
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[path_file]).digest()).rstrip(b"=").decode()
        lines = [line for line in files[record].decode().splitlines() if not line.startswith(f"{path_file},")]
        lines.append(f"{path_file},sha256={digest},{len(files[path_file])}")
        files[record] = ("\n".join(lines) + "\n").encode()
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as mended:
            for name, content in files.items():
                mended.writestr(name, content)


packages = list(FOLDERS)
for import_name, folder in FOLDERS.items():
    # The namespace finder keeps data folders, which have no __init__.py.
    packages += [
        f"{import_name}.{found}" for found in find_namespace_packages(folder, exclude=["*__pycache__*"])
    ]
setup(
    packages=packages,
    cmdclass={"editable_wheel": EditableWheel},
    long_description=long_description(),
    long_description_content_type="text/markdown",
)
