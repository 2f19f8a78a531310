"""The documentation as a site: every page is in its index, and Sphinx has nothing to complain about."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import autosched

DOCS = Path(__file__).parents[2] / "docs"


def test_every_page_is_in_the_index_once() -> None:
    listed = re.findall(r"^([\w-]+)$", (DOCS / "index.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(page.stem for page in DOCS.glob("*.md") if page.stem != "index")


def test_the_reference_has_all_that_autosched_exports() -> None:
    shown = set(re.findall(r"^\.\. auto\w+:: autosched\.(\w+)$", (DOCS / "api.md").read_text(), re.MULTILINE))
    assert shown == set(autosched.__all__) - {"__version__"}


@pytest.mark.nightly
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    for module in ("sphinx", "myst_parser", "furo", "torch"):
        pytest.importorskip(module)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", str(DOCS), str(tmp_path / "site")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "autosched.matmul" in (tmp_path / "site" / "api.html").read_text()
