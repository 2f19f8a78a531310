"""Generated reference pages are up to date."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"

spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
assert spec is not None and spec.loader is not None
generate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generate)


@pytest.mark.parametrize("name", generate.PAGES)
def test_generated_pages_are_current(name: str) -> None:
    if name == "api.md":
        pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
    page = (DOCS / "reference" / name).read_text("utf-8")
    assert page == generate.PAGES[name](), "python docs/generate.py writes it"


def test_every_parameter_is_described() -> None:
    page = generate.schedule_parameters()
    assert not [line for line in page.splitlines() if line.startswith("| `") and "|  |" in line]
