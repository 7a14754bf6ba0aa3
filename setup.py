"""List the packages: pyproject.toml maps the folders, this file finds what is in them."""

from setuptools import find_namespace_packages, setup

FOLDERS = {"sysgym": "src/sysgym"} | {
    f"sysgym.{name}": name for name in ("agents", "emulator", "envs", "scenarios")
}
packages = list(FOLDERS)
for import_name, folder in FOLDERS.items():
    # The namespace finder keeps data folders, which have no __init__.py.
    packages += [
        f"{import_name}.{found}" for found in find_namespace_packages(folder, exclude=["*__pycache__*"])
    ]
setup(packages=packages)
