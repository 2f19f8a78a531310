"""Every package introduces itself, and names files that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize("package", ["autosched", "cost_models", "measurements", "search_spaces"])
def test_every_package_has_a_docstring(package: str) -> None:
    files = list((REPOSITORY / package).rglob("__init__.py"))
    assert files
    missing = [file for file in files if not ast.get_docstring(ast.parse(file.read_text()))]
    assert missing == []


@pytest.mark.parametrize("package", ["autosched", "cost_models", "measurements", "search_spaces"])
def test_files_that_introductions_name_exist(package: str) -> None:
    missing = []
    for file in (REPOSITORY / package).rglob("__init__.py"):
        named = re.findall(r"``([\w/*]+(?:\.py|\.cuh|/))``", ast.get_docstring(ast.parse(file.read_text())) or "")
        folders = (file.parent, file.parent.parent, REPOSITORY, REPOSITORY / "autosched" / "include")
        missing += [(file, name) for name in named if not any(any(folder.glob(name)) for folder in folders)]
    assert missing == []
