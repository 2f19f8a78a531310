"""Build steps that pyproject.toml cannot express.

Equal sources give equal wheels, an installation compiles the emulator, and README's links are absolute in the package's
description.
"""

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

COMPILE_SECONDS = 900
# A build environment has no numpy, which the package `measurements.emulator` imports.
COMPILE = """
import sys
from types import ModuleType
emulator = ModuleType("measurements.emulator")
emulator.__path__ = ["measurements/emulator"]
sys.modules[emulator.__name__] = emulator
sys.path.insert(0, "")
from measurements.emulator.host.build import runner
try:
    runner()
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


class BuildPy(build_py):
    """Compiles the emulator after building the package."""

    def run(self) -> None:
        """Build the package, then compile the emulator into the user's cache, where any installation finds it."""
        super().run()
        compile_emulator()


def compile_emulator() -> None:
    """Compile the emulator here, so that the first command need not. Without a compiler or a cache, nothing happens.

    The compilation reports its progress every few seconds on stderr. pip turns its spinner at each of these lines, and
    shows them with ``-v``.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-B", "-c", COMPILE],
            cwd=Path(__file__).parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=COMPILE_SECONDS,
            check=False,
        )
        compiled = done.returncode == 0
    except (OSError, subprocess.SubprocessError) as error:
        print(error, file=sys.stderr)
        compiled = False
    if not compiled:
        print("the emulator was not compiled; the first command that needs it compiles it", file=sys.stderr)


class BdistWheel(bdist_wheel):
    """Writes wheels with uniform file modes."""

    def write_wheelfile(self, *args: Any, **named: Any) -> None:
        """Give all files one mode, whatever the umask, before they are packed."""
        super().write_wheelfile(*args, **named)
        for path in Path(self.bdist_dir).rglob("*"):
            if path.is_file():
                path.chmod(0o644)


def description() -> str:
    """Return README.md with links to the files of this version's tag."""
    folder = Path(__file__).parent
    version = runpy.run_path(str(folder / "autosched" / "version.py"))["VERSION"]
    files = f"https://github.com/autosched/autosched/blob/v{version}/"
    return re.sub(r"\]\((?!\w+:|#)([^)\s]+)\)", rf"]({files}\1)", (folder / "README.md").read_text("utf-8"))


setup(
    cmdclass={"bdist_wheel": BdistWheel, "build_py": BuildPy},
    long_description=description(),
    long_description_content_type="text/markdown",
)
