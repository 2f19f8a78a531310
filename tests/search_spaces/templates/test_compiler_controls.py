"""Compiler controls are decisions that are appended to a schedule and are not part of the template's space."""

import dataclasses

import pytest

from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.launches.control_file import MOST_BYTES, ControlFile, control_file_of, for_ptx
from search_spaces.operators.copy import Copy
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.compiler_controls import (
    FILE,
    MAX_REGISTERS,
    OPT_LEVEL,
    CompilerControls,
    has_controls,
    neighbours,
    plain,
    register_caps,
    shown_value,
)

H100 = device("h100")
PROBLEM = Matmul(m=256, n=256, k=256)
ACF = ControlFile("fast.acf", b"\0controls\xff")


def schedule(name: str = "matmul") -> Schedule:
    return template(name).space(PROBLEM, H100).sample(1, 3)[0]


def test_controls_are_read_back_from_a_schedule_and_its_json() -> None:
    plain_one = schedule()
    controls = CompilerControls(max_registers=64, opt_level=1, file=ACF)
    chosen = controls.on(plain_one)
    assert CompilerControls.of(Schedule.from_json(chosen.template, chosen.to_json())) == controls
    assert plain(chosen) == plain_one
    assert has_controls(chosen)
    assert not has_controls(plain_one)
    assert CompilerControls().on(chosen) == plain_one
    assert chosen.key() != plain_one.key()


def test_a_kernel_has_the_controls_as_options_and_is_otherwise_the_same() -> None:
    its, plain_one = template("matmul"), schedule()
    kernel = its.kernel(PROBLEM, plain_one, H100)
    capped = its.kernel(PROBLEM, CompilerControls(max_registers=96, file=ACF).on(plain_one), H100)
    added = capped.compile_options[len(kernel.compile_options) :]
    assert dataclasses.replace(capped, compile_options=kernel.compile_options) == kernel
    assert "--ptxas-options=--maxrregcount=96" in added
    assert control_file_of(added) == ACF
    assert for_ptx(capped.compile_options) == for_ptx(kernel.compile_options)  # emulation does not use ptxas
    assert capped.digest != kernel.digest


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (MAX_REGISTERS, 300),
        (MAX_REGISTERS, "64"),
        (OPT_LEVEL, 7),
        (FILE, 3),
        (FILE, "a.acf:?"),
        (FILE, "../a.acf:YQ=="),
    ],
)
def test_an_edited_control_is_rejected_as_an_edited_parameter_is(name: str, value: int | str) -> None:
    edited = Schedule("matmul", (*schedule().items, (name, value)))
    with pytest.raises(ValueError, match=r"ptxas|control file"):
        template("matmul").config(PROBLEM, edited, H100)


def test_each_register_cap_fits_one_more_block() -> None:
    problem = Copy(rows=1024, columns=1024)
    its = template("copy")
    kernel = its.kernel(problem, its.space(problem, H100).sample(1, 0)[0], H100)
    kernel = dataclasses.replace(kernel, block=(256, 1, 1))
    # 65,536 registers hold 2 blocks of 256 threads with 128 registers each, 3 with 80, 4 with 64, 5 with 48.
    assert register_caps(kernel, 128, 0, H100) == (80, 64)
    assert register_caps(kernel, 100, 0, H100) == (80, 64)
    assert register_caps(kernel, 128, 100_000, H100) == ()  # shared memory limits the blocks


def test_a_kernel_that_moves_registers_between_warps_gets_no_cap() -> None:
    problem = Matmul(m=1024, n=1024, k=1024)
    its = template("wgmma_matmul")
    kernel = its.kernel(problem, its.space(problem, H100).sample(1, 0)[0], H100)
    assert register_caps(kernel, 168, 0, H100) == ()


def test_neighbours_change_one_control_starting_with_files() -> None:
    near = neighbours(CompilerControls(opt_level=1), (64, 32), [ACF])
    assert near[0] == CompilerControls(opt_level=1, file=ACF)
    assert CompilerControls(max_registers=64, opt_level=1) in near
    assert CompilerControls() in near
    assert CompilerControls(opt_level=1) not in near


def test_a_control_file_is_shown_by_its_name_and_digest() -> None:
    assert shown_value(FILE, ACF.text).startswith("fast.acf (10 bytes, sha256 ")
    assert shown_value(OPT_LEVEL, 2) == "2"


@pytest.mark.parametrize(("name", "content"), [("a b", b"x"), ("a", b""), ("a", bytes(MOST_BYTES + 1))])
def test_a_control_file_that_cannot_be_used_is_rejected(name: str, content: bytes) -> None:
    with pytest.raises(ValueError, match="control file"):
        ControlFile(name, content)
