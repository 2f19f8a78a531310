"""Every package introduces itself."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize("package", ["autosched", "cost_models", "measurements", "search_spaces"])
def test_every_package_has_a_docstring(package: str) -> None:
    files = list((REPOSITORY / package).rglob("__init__.py"))
    assert files
    missing = [file for file in files if not ast.get_docstring(ast.parse(file.read_text()))]
    assert missing == []
