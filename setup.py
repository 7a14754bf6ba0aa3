"""List the packages: pyproject.toml maps the folders, this file finds what is in them."""

import base64
import hashlib
import zipfile
from pathlib import Path

from setuptools import find_namespace_packages, setup
from setuptools.command.editable_wheel import editable_wheel

ROOT = Path(__file__).resolve().parent
FOLDERS = {"sysgym": "src/sysgym"} | {
    f"sysgym.{name}": name for name in ("agents", "emulator", "envs", "scenarios")
}


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
setup(packages=packages, cmdclass={"editable_wheel": EditableWheel})
