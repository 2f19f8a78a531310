"""``check --with-python``: the other environment's compiler is equal to this one, or worse in a known way.

The other environment is a script that starts this Python with a ``sitecustomize`` module. The module changes NVRTC's
version, options or source text, so a real compiler runs in a real process.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from needs import needs_compiler, needs_nvrtc

from autosched.cli import main
from autosched.regression.check import CannotCheck, CheckOptions, check_database
from autosched.regression.report import CheckFinding, EntryStatus
from autosched.regression.static import StaticOptions
from measurements.compiler.other_compiler import NoOtherCompiler, OtherCompiler
from measurements.trials.trial import Trial
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

pytestmark = [needs_nvrtc]

PROBLEM = Matmul(m=64, n=64, k=64)
WITHOUT_NUMBERS = StaticOptions(emulate=False)

_PATCH = """
try:
    import cuda.bindings.nvrtc as nvrtc
except ImportError:
    pass
else:
    compile_program = nvrtc.nvrtcCompileProgram
    MORE = {options!r}
    nvrtc.nvrtcCompileProgram = lambda program, number, options: compile_program(
        program, number + len(MORE), [*options, *MORE]
    )
    create = nvrtc.nvrtcCreateProgram
    OLD, NEW = {replaced!r}
    nvrtc.nvrtcCreateProgram = lambda source, name, number, headers, names: create(
        source.replace(OLD, NEW), name, number, [header.replace(OLD, NEW) for header in headers], names
    )
    version = nvrtc.nvrtcVersion
    nvrtc.nvrtcVersion = lambda: (version()[0], 99, {minor})
"""

MakeOther = Callable[..., str]
MakeTrial = Callable[..., Trial]
MakeDatabase = Callable[..., Path]


@pytest.fixture
def other_python(tmp_path: Path) -> MakeOther:
    """Return a function that makes an environment whose NVRTC gets additional options and an edited source text.

    NVRTC's version number is a checksum of the options and the edit, so that caches distinguish environments.
    """

    def make(*options: bytes, replaced: tuple[bytes, bytes] = (b"nothing", b"nothing")) -> str:
        minor = zlib.crc32(repr((options, replaced)).encode())
        folder = tmp_path / f"other{minor}"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(_PATCH.format(options=list(options), minor=minor, replaced=replaced))
        python = folder / "python"
        python.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}" exec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        return str(python)

    return make


def finding(database: Path, python: str, static: StaticOptions = WITHOUT_NUMBERS) -> CheckFinding:
    (entry,) = check_database(database, CheckOptions(static=static, with_python=python), static=True).findings
    return entry


def large(schedules: list[Schedule]) -> Schedule:
    """Return a schedule whose kernel needs many registers."""
    space = template("matmul").space(Matmul(256, 256, 256), device("h200"))
    required = {"tile_m": 128, "tile_n": 128, "subgroups_m": 2, "subgroups_n": 2, "min_blocks": 1, "split_k": 1}
    return next(s for s in space.sample(4000, 1) if all(s[name] == value for name, value in required.items()))


def test_an_equal_compiler_gives_equal_code(
    make_trial: MakeTrial, database: MakeDatabase, schedules: list[Schedule], other_python: MakeOther
) -> None:
    entry = finding(database(make_trial(schedules[0])), other_python())
    assert (entry.verdict, entry.reasons) == (EntryStatus.SAME, ())
    assert str(entry.numbers["toolchain_there"]).startswith("nvrtc 99.")
    assert entry.numbers["registers_here"] == entry.numbers["registers_there"]


def test_new_spills_are_named(
    make_trial: MakeTrial, database: MakeDatabase, schedules: list[Schedule], other_python: MakeOther
) -> None:
    problem = Matmul(256, 256, 256)
    greedy = make_trial(large(schedules), problem=problem)
    few_registers = (b"__launch_bounds__(128, 1)", b"__maxnreg__(48)")
    entry = finding(database(greedy), other_python(replaced=few_registers))
    assert entry.verdict is EntryStatus.SLOWER
    assert any("spills" in reason for reason in entry.reasons)
    assert any("estimated time" in reason for reason in entry.reasons)
    assert "nvrtc 99." in entry.reasons[-1]


def test_a_longer_main_loop_is_named(
    make_trial: MakeTrial, database: MakeDatabase, schedules: list[Schedule], other_python: MakeOther
) -> None:
    entry = finding(database(make_trial(schedules[0])), other_python(b"--ptxas-options=-O0"))
    assert entry.verdict is EntryStatus.SLOWER
    assert any("main loop" in reason for reason in entry.reasons)


def test_a_compile_failure_of_the_other_compiler_is_broken(
    make_trial: MakeTrial, database: MakeDatabase, schedules: list[Schedule], other_python: MakeOther
) -> None:
    entry = finding(
        database(make_trial(schedules[0])), other_python(b"--include-path=x", b"-Dmain", b"-Dfloat=nonsense")
    )
    assert entry.verdict is EntryStatus.BROKEN


@needs_compiler
def test_other_ptx_is_verified(
    make_trial: MakeTrial, database: MakeDatabase, schedules: list[Schedule], other_python: MakeOther
) -> None:
    path = database(make_trial(schedules[0]))
    emulated = StaticOptions(emulate=True)
    assert finding(path, other_python(b"--ftz=true"), emulated).verdict is EntryStatus.SAME
    wrong = finding(path, other_python(replaced=(b"cvt.rn.f16.f32 %0, %1", b"mov.b16 %0, 0")), emulated)
    assert wrong.verdict is EntryStatus.WRONG
    assert "nvrtc 99." in wrong.reasons[0]


@pytest.mark.parametrize("python", ["/nowhere/python", "/bin/true", "/bin/sh"])
def test_a_missing_environment_is_rejected(
    make_trial: MakeTrial,
    database: MakeDatabase,
    schedules: list[Schedule],
    python: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(NoOtherCompiler):
        OtherCompiler.of(python)
    path = database(make_trial(schedules[0]))
    with pytest.raises(CannotCheck):
        check_database(path, CheckOptions(with_python=python), static=True)
    assert main(["check", "--db", str(path), "--with-python", python]) == 2
    stderr = capsys.readouterr().err.strip().splitlines()
    assert python in stderr[-1]


def test_the_command_reports_entries_to_tune_again(
    make_trial: MakeTrial,
    database: MakeDatabase,
    schedules: list[Schedule],
    other_python: MakeOther,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = database(make_trial(schedules[0]))
    options = ["--no-emulate", "--with-python"]
    assert main(["check", "--db", str(path), *options, other_python(b"--ptxas-options=-O0")]) == 1
    assert "tune it again with nvrtc 99." in capsys.readouterr().out
    assert main(["check", "--db", str(path), *options, other_python()]) == 0
