"""A folder answers one question: it has few files of code, and says where to start."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PACKAGES = ("autosched", "cost_models", "measurements", "search_spaces")
MOST = 14  # files of code side by side, without the ``__init__`` that introduces them
CODE = (".py", ".cpp", ".cu", ".cuh", ".hpp")
DATA = {  # kernels that are data of tests, each a case: found by their names, not read one after the other
    "benchmarks/users_kernels/published/kernel_tuner",
    "tests/autosched/proofs/emulate/idioms",
    "tests/golden",
    "tests/measurements/emulator/kernels",
    "tests/measurements/emulator/programs/corpus",
}


def _folders() -> list[Path]:
    tops = [REPOSITORY / name for name in (*PACKAGES, "benchmarks", "docs", "examples", "tests")]
    return [
        Path(folder)
        for top in tops
        for folder, _, _ in os.walk(top)
        if "__pycache__" not in folder and os.sep + "." not in folder
    ]


def test_no_folder_has_too_many_files_of_code() -> None:
    crowded = {}
    for folder in _folders():
        name = folder.relative_to(REPOSITORY).as_posix()
        endings = (".py",) if name in DATA else CODE
        files = [file.name for file in folder.iterdir() if file.suffix in endings and file.name != "__init__.py"]
        if len(files) > MOST:
            crowded[name] = len(files)
    assert crowded == {}, "split them, as docs/contributing/architecture.md says"


def test_folders_of_data_are_there() -> None:
    assert all((REPOSITORY / name).is_dir() for name in DATA)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_room_says_what_it_is_for(package: str) -> None:
    silent = [
        file.relative_to(REPOSITORY).as_posix()
        for file in (REPOSITORY / package).rglob("__init__.py")
        if not ast.get_docstring(ast.parse(file.read_text()))
    ]
    assert silent == []
