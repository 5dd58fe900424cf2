"""Builds an image's virtual environment: libraries first, then the product as its own layer.

Runs inside the build with a Python that has pip; the environment itself has no pip. Only extras of
pyproject.toml describe the image, so this module must not depend on which image it builds.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

VENV = Path("/opt/strandline")
BUILD = Path("/build")
PRODUCT = BUILD / "product"
WHEELS = BUILD / "wheels"
CA = Path("/etc/build-ca.pem")
# Files that no program reads at run time. Ray's jars serve only Java programs.
SURPLUS = (
    "numpy/**/tests",
    "numpy/**/*.a",
    "numpy/_core/include",
    "pyarrow/include",
    "pyarrow/src",
    "pyarrow/tests",
    "pyarrow/**/*.pxd",
    "pyarrow/**/*.pyx",
    "ray/jars",
    "ray/**/tests",
)


def main(arguments: Sequence[str]) -> None:
    """Run a build step: `needs NAME EXTRA...`, `libraries NAME`, `wheel`, or `product`."""
    step, *words = arguments
    if step == "needs":
        name, *extras = words
        needed = read_requirements((BUILD / "pyproject.toml").read_text(), extras)
        (BUILD / f"{name}.txt").write_text("".join(f"{line}\n" for line in needed))
    elif step == "libraries":
        install_libraries(BUILD / f"{words[0]}.txt")
    elif step == "wheel":
        _run_pip("wheel", "--no-deps", "--wheel-dir", str(WHEELS), str(BUILD))
    elif step == "product":
        install_product()
    else:
        sys.exit(f"environment.py: there is no step {step}")


def install_libraries(needed: Path) -> None:
    """Install all pinned packages of a requirements file."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(VENV)], check=True)
    pins = str(BUILD / "constraints.txt")
    what = ["--only-binary", ":all:", "--constraint", pins, "--requirement", str(needed)]
    # Prefer uv, which is many times faster than pip. But uv ignores pip's settings, so use pip if
    # the settings name another package index.
    if has_own_index(read_settings()) or not _run_uv(*what):
        _run_pip("install", "--no-compile", *what)
    drop_surplus(find_packages(VENV))
    compile_all(find_packages(VENV), VENV)


def install_product() -> None:
    """Install only the product's wheel, under a separate root."""
    (wheel,) = WHEELS.glob("strandline-*.whl")
    location = ["--no-index", "--no-deps", "--no-compile", "--no-warn-script-location"]
    _run_pip("install", *location, "--root", str(PRODUCT), str(wheel))
    compile_all(find_packages(PRODUCT / VENV.relative_to("/")), PRODUCT)


def read_settings() -> str:
    """Return pip's settings, such as the package index."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def has_own_index(settings: str) -> bool:
    """Return whether packages come from an index other than the public one.

    Args:
        settings: output of `pip config list`.
    """
    return re.search(r"\.(extra-index-url|index-url|no-index|proxy)=", settings) is not None


def read_requirements(pyproject: str, extras: Sequence[str]) -> list[str]:
    """Return the requirements of the project and the given extras, without duplicates."""
    project = tomllib.loads(pyproject)["project"]
    needed = list(project["dependencies"])
    for extra in extras:
        needed += project["optional-dependencies"][extra]
    return sorted(set(needed))


def find_packages(venv: Path) -> Path:
    """Return the package folder of a virtual environment."""
    (packages,) = venv.glob("lib/python3.*/site-packages")
    return packages


def drop_surplus(packages: Path) -> None:
    """Remove files that are unused at run time."""
    for path in _find_surplus(packages):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def compile_all(packages: Path, root: Path) -> None:
    """Write reproducible bytecode, which Python never checks against the sources."""
    shown = ["-s", str(root), "-p", "/" if root == PRODUCT else str(VENV)]
    mode = ["--invalidation-mode", "unchecked-hash"]
    command = [sys.executable, "-m", "compileall", "-q", *shown, *mode, str(packages)]
    # Some libraries ship templates that are not valid Python; these files get no bytecode.
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)


def _find_surplus(packages: Path) -> Iterator[Path]:
    for pattern in SURPLUS:
        yield from sorted(packages.glob(pattern))


def _run_uv(*arguments: str) -> bool:
    """Install into the environment; return False if uv is not available or fails."""
    pins = ["--constraint", str(BUILD / "constraints.txt")]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--no-input"]
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet", "--no-cache"]
    where = ["--python", str(VENV / "bin/python"), "--link-mode", "copy"]
    commands = [[*pip, *pins, "uv"], [*uv, *where, *arguments]]
    environment = os.environ | _trust()
    return all(
        subprocess.run(command, check=False, env=environment).returncode == 0
        for command in commands
    )


def _run_pip(command: str, *arguments: str) -> None:
    location = [] if command == "wheel" else ["--python", str(VENV / "bin/python")]
    quiet = ["--disable-pip-version-check", "--no-cache-dir", "--no-input", "--quiet"]
    pip = [sys.executable, "-m", "pip", *location]
    subprocess.run([*pip, command, *quiet, *arguments], check=True, env=os.environ | _trust())


def _trust() -> dict[str, str]:
    """Return environment variables for the build's own certificates, if it has any.

    Unlike options, variables also reach the nested pip that installs build requirements.
    """
    if not (CA.exists() and CA.stat().st_size):
        return {}
    return {"PIP_CERT": str(CA), "SSL_CERT_FILE": str(CA)}


if __name__ == "__main__":
    main(sys.argv[1:])
