"""Sphinx builds the documentation without warnings, and every page is in the index."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import autosched

DOCS = Path(__file__).parents[2] / "docs"


def test_every_page_has_a_kind_and_the_index_lists_the_kinds() -> None:
    listed = re.findall(r"^([\w*/-]+)$", (DOCS / "index.md").read_text(), re.MULTILINE)
    folders = {page.parent.name for page in DOCS.glob("*/*.md")}
    assert sorted(listed) == sorted([*(f"{folder}/*" for folder in folders), "status"])
    assert {page.stem for page in DOCS.glob("*.md")} == {"index", "status"}


def test_links_between_pages_lead_somewhere() -> None:
    pages = [*DOCS.rglob("*.md"), *(DOCS.parent / "benchmarks/results").glob("*.md")]
    pages += [DOCS.parent / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.relative_to(DOCS.parent)} links to {target}"


def test_the_reference_has_all_that_autosched_exports() -> None:
    shown = set(re.findall(r"^### `autosched\.(\w+)`$", (DOCS / "reference" / "api.md").read_text(), re.MULTILINE))
    assert shown == set(autosched.__all__) - {"__version__"}


BUILDER = """
import importlib.abc, runpy, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in {absent}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
sys.argv = ["sphinx", *sys.argv[1:]]
runpy.run_module("sphinx", run_name="__main__")
"""


def installed_with(*requirements: str) -> set[str]:
    """Return the names of these packages and of all packages that they require, directly or indirectly."""
    distributions: dict[tuple[str, str], None] = {}
    left = [Requirement(r) for r in requirements]
    while left:
        requirement = left.pop()
        for extra in ["", *requirement.extras]:
            key = (re.sub(r"[-_.]+", "-", requirement.name).lower(), extra)
            if key in distributions:
                continue
            distributions[key] = None
            try:
                dependencies = importlib.metadata.requires(requirement.name) or []
            except importlib.metadata.PackageNotFoundError:
                continue
            left += [
                r for r in map(Requirement, dependencies) if r.marker is None or r.marker.evaluate({"extra": extra})
            ]
    return {name for name, _ in distributions}


@pytest.mark.nightly
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    for module in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(module)
    # Hide all installed packages that the extra `docs` does not require, to simulate a machine with only this extra.
    installed = installed_with("autosched[docs]")
    absent = {
        module
        for module, owners in importlib.metadata.packages_distributions().items()
        if not {re.sub(r"[-_.]+", "-", owner).lower() for owner in owners} & {*installed, "setuptools", "pip"}
    }
    assert "torch" not in installed and "sphinx" not in absent
    builder = BUILDER.format(absent=absent)
    command = [sys.executable, "-c", builder, "-W", "--keep-going", "-q", str(DOCS), str(tmp_path / "site")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "autosched.matmul" in (tmp_path / "site" / "reference" / "api.html").read_text()
