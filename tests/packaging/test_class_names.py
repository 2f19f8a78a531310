"""No two classes of the packages have the same name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("autosched", "cost_models", "measurements", "search_spaces")


def test_no_class_name_is_defined_twice() -> None:
    definitions = defaultdict(list)
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(node, ast.ClassDef):
                    definitions[node.name].append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert {name: files for name, files in definitions.items() if len(files) > 1} == {}
