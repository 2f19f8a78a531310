"""What pyproject.toml cannot say: the files of a wheel have one mode, whatever the clone's umask, so that equal sources
give equal bytes."""

from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel


class BdistWheel(bdist_wheel):
    def egg2dist(self, *paths: Any) -> None:
        """Run the last step before all files are packed."""
        super().egg2dist(*paths)
        for path in Path(self.bdist_dir).rglob("*"):
            if path.is_file():
                path.chmod(0o644)


setup(cmdclass={"bdist_wheel": BdistWheel})
