"""The documentation as a site: every page is in its index, and Sphinx has nothing to complain about."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import autosched

DOCS = Path(__file__).parents[2] / "docs"


def test_every_page_has_a_kind_and_the_index_lists_the_kinds() -> None:
    listed = re.findall(r"^([\w*/-]+)$", (DOCS / "index.md").read_text(), re.MULTILINE)
    folders = {page.parent.name for page in DOCS.glob("*/*.md")}
    assert sorted(listed) == sorted([*(f"{folder}/*" for folder in folders), "status"])
    assert {page.stem for page in DOCS.glob("*.md")} == {"index", "status"}


def test_links_between_pages_lead_somewhere() -> None:
    pages = [*DOCS.rglob("*.md"), *(DOCS.parent / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))]
    for page in pages:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.relative_to(DOCS.parent)} links to {target}"


def test_the_reference_has_all_that_autosched_exports() -> None:
    shown = set(
        re.findall(r"^\.\. auto\w+:: autosched\.(\w+)$", (DOCS / "reference" / "api.md").read_text(), re.MULTILINE)
    )
    assert shown == set(autosched.__all__) - {"__version__"}


@pytest.mark.nightly
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    for module in ("sphinx", "myst_parser", "furo", "torch"):
        pytest.importorskip(module)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", str(DOCS), str(tmp_path / "site")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "autosched.matmul" in (tmp_path / "site" / "reference" / "api.html").read_text()
