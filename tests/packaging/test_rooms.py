"""Every package has an introduction, and all files that the introduction mentions exist."""

from __future__ import annotations

import ast
import re
import tomllib
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


@pytest.mark.parametrize("package", ["autosched", "cost_models", "measurements", "search_spaces"])
def test_introductions_state_the_contents_a_start_and_a_bound(package: str) -> None:
    lacking = []
    for file in (REPOSITORY / package).rglob("__init__.py"):
        lines = (ast.get_docstring(ast.parse(file.read_text())) or "").splitlines()
        prose = " ".join(line for line in lines if not line.startswith((">>>", "    ")))
        plain = re.sub(r"``[^`]*``", "NAME", prose)
        sentences = re.split(r"(?<=[.?]) ", plain)
        states = sentences[0].endswith(".")
        bounded = re.search(r"\b(not|never|may|only)\b[^.]*\bimport|No other", plain) is not None
        if not (states and bounded and "Start at" in plain and 3 <= len(sentences) <= 8):
            lacking.append(file)
    assert lacking == []


@pytest.mark.parametrize("package", ["autosched", "cost_models", "measurements", "search_spaces"])
def test_the_architecture_page_lists_the_packages_of_each_layer(package: str) -> None:
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c.get("containers") == [package])
    expected = {number: set(layer.split(" | ")) for number, layer in enumerate(layers, 1)}
    page = (REPOSITORY / "docs" / "contributing" / "architecture.md").read_text()
    table = page.split(f"\n`{package}/`\n")[1].split("\n\n")[0]
    listed: dict[int, set[str]] = {}
    for layer, packages in re.findall(r"^\| (\d+) \| ([^|]*) \|", table, re.M):
        listed.setdefault(int(layer), set()).update(re.findall(r"`(\w+)(?:/|\.py)`", packages))
    assert listed == expected


def test_files_that_the_architecture_page_names_exist() -> None:
    page = (REPOSITORY / "docs" / "contributing" / "architecture.md").read_text()
    named = re.findall(r"`((?:autosched|measurements|search_spaces|cost_models|tests|benchmarks)/[\w/]*[\w.]+)`", page)
    assert named and [name for name in named if not (REPOSITORY / name).exists()] == []
