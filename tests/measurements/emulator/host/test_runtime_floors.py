"""Test the structure of the C++ runtime.

Files include only headers of their own folder or of lower layers. Only ``Machine`` owns mutable state.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest
from needs import needs_compiler

from measurements.emulator.host.build import RUNTIME, runner

FLOORS = (
    "machine",  # state that all layers share, and the report of findings
    "memory",
    "memory/global",
    "memory/shared",
    "order",  # the happens-before order that flags and fences establish
    "isa",  # instructions, programs and warps
    "isa/numbers",  # number formats
    "isa/values",  # origins and uses of register values
    "isa/arithmetic",
    "isa/access",  # loads, stores and atomics
    "isa/sync",  # barriers and fences
    "isa/async",  # asynchronous copies, and the mbarriers that count them
    "isa/matrix",
    "interpreter",  # executes warps
    "sched",  # scheduling of warps and blocks
    ".",  # the main program
)
_INCLUDE = re.compile(r'^#include "(.+)"$', re.MULTILINE)


def upward(runtime: Path, floors: tuple[str, ...]) -> Iterator[str]:
    """Yield each ``#include`` whose header is in a higher layer than the file that includes it."""
    floor = {PurePosixPath(folder): height for height, folder in enumerate(floors)}
    for path in sorted(runtime.rglob("*.?pp")):
        file = PurePosixPath(path.relative_to(runtime).as_posix())
        for header in _INCLUDE.findall(path.read_text()):
            if floor[PurePosixPath(header).parent] > floor[file.parent]:
                yield f"{file} includes {header}"


def test_includes_point_down() -> None:
    assert list(upward(RUNTIME, FLOORS)) == []


def test_an_include_that_points_up_is_found(tmp_path: Path) -> None:
    files = {"low/a.hpp": '#include "high/b.hpp"\n', "high/b.hpp": '#include "low/c.hpp"\n', "low/c.hpp": ""}
    for file, text in files.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    assert list(upward(tmp_path, ("low", "high"))) == ["low/a.hpp includes high/b.hpp"]
    with pytest.raises(KeyError):
        list(upward(tmp_path, ("low",)))


def test_each_folder_is_a_floor_and_has_a_name_of_its_own() -> None:
    folders = {path.parent.relative_to(RUNTIME).as_posix() for path in RUNTIME.rglob("*.?pp")}
    assert folders == set(FLOORS)
    assert [name for name, count in Counter(PurePosixPath(f).name for f in folders).items() if count > 1] == []


def test_no_variable_is_shared_between_files() -> None:
    shared = re.compile(r"^\s*(?:extern (?!const Rows)|inline [\w:<>*& ]+ = )", re.MULTILINE)
    assert [path.name for path in RUNTIME.rglob("*.?pp") if shared.search(path.read_text())] == []


@needs_compiler
@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")
def test_mutable_state_belongs_to_a_machine() -> None:
    """Allowed exceptions: function-local statics, and the pointer through which signal handlers find the machine."""
    lines = subprocess.run(["nm", "-C", runner()], capture_output=True, text=True, check=True).stdout.splitlines()
    symbols = [line.split(maxsplit=2) for line in lines]
    zeroed = {s[2] for s in symbols if len(s) == 3 and s[1] in "bB" and s[2].startswith("autosched::emulator")}
    assert {name for name in zeroed if ")::" not in name.replace("(anonymous namespace)::", "")} == {
        "autosched::emulator::(anonymous namespace)::running"
    }
