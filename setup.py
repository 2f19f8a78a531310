"""What pyproject.toml cannot say: the files of a wheel have one mode, whatever the umask, so that equal sources
give equal bytes."""

from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel


class BdistWheel(bdist_wheel):
    def write_wheelfile(self, *given: Any, **named: Any) -> None:
        """Run the last step before all files are packed."""
        super().write_wheelfile(*given, **named)
        for path in Path(self.bdist_dir).rglob("*"):
            if path.is_file():
                path.chmod(0o644)


setup(cmdclass={"bdist_wheel": BdistWheel})
