"""atomic_rmw of every kind and type: in any order, emulated results are within the interpreter's bounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from autosched.programs.loading import problem
from measurements.emulator import ASCENDING, Order, emulate
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers
from search_spaces.programs.builder import Builder, InOut, Input, Program, program
from search_spaces.programs.language.functions import ATOMICS
from search_spaces.programs.language.ir import Array
from search_spaces.programs.template import template

CASES = [(kind, type_) for kind, row in ATOMICS.items() for type_ in row.types if kind != "assign"]


def combining(kind: str, type_: str, by_position: bool = False) -> Program:
    """Return a program whose blocks combine rows of x with rows of out.

    These are the rows of out at the indices ``ids`` if ``by_position``, otherwise the first rows.
    """

    def body(p: Builder, x: Array, ids: Array, out: Array) -> None:
        (n,) = p.blocks((x.shape[0],), (16,))
        rows = p.load(p.window(ids, (n, 0), (16, 1), column=True), padding=-1)
        value = p.load(p.window(x, (n, 0), (16, 32)))
        p.atomic_rmw(kind, value, p.window(out, (rows, 0) if by_position else (0, 0), (16, 32)))

    tile_program = program(x=Input("k n", type_), ids=Input("k", "i32"), out=InOut("m n", type_))(body)
    return Program(f"atomic_{kind}_{type_}_{by_position}", *list(vars(tile_program).values())[1:])


Change = Callable[[GeneratedKernel], GeneratedKernel]


def verified(
    program: Program, where: str, sizes: dict[str, int], seed: int, width: int = 1, changed: Change | None = None
) -> str:
    p, row = problem(program, **sizes), device(where)
    kernel_template = template(program)
    assert kernel_template.why_not(p, row) is None
    inputs = p.random_inputs(seed)
    expected, bounds = p.expected(inputs)
    schedule = next(s for s in kernel_template.space(p, row).valid.sample(40, seed) if s.integer("width_1") >= width)
    kernel = kernel_template.kernel(p, schedule, row)
    kernel = changed(kernel) if changed else kernel
    (out,) = (o for o in p.operands() if o.role == "inout")
    for order in (ASCENDING, Order("random", seed=seed)):
        run = emulate(kernel, inputs, time_limit=60.0, order=order)
        assert run.status == "ok", (run.reason, schedule)
        error = np.abs(out.dtype.load(run.outputs["out"]) - expected["out"])
        assert np.all((error <= bounds["out"]) | np.isnan(expected["out"])), (schedule, error.max())
    return kernel.source


@pytest.mark.parametrize(("kind", "type_"), CASES)
def test_all_kinds(kind: str, type_: str) -> None:
    """Half of the cases have an odd number of columns, so that the last pair of a row is incomplete."""
    seed = CASES.index((kind, type_))
    verified(combining(kind, type_), "a100", {"k": 60, "n": 31 if seed % 2 else 32, "m": 13}, seed)


@pytest.mark.parametrize("type_", ATOMICS["assign"].types)
def test_each_element_is_assigned_by_one_block(type_: str) -> None:
    def body(p: Builder, x: Array, out: Array) -> None:
        (n,) = p.blocks((x.shape[0],), (16,))
        value = p.load(p.window(x, (n, 0), (16, 32)))
        p.atomic_rmw("assign", value, p.window(out, (n, 0), (16, 32)))

    tile_program = program(x=Input("k n", type_), out=InOut("k n", type_))(body)
    assignment = Program(f"assign_{type_}", *list(vars(tile_program).values())[1:])
    verified(assignment, "a100", {"k": 60, "n": 31}, 4)


def test_two_blocks_that_assign_an_element_are_rejected() -> None:
    program = combining("assign", "f32")
    reason = template(program).why_not(problem(program, k=60, n=32, m=13), device("a100"))
    assert reason is not None
    assert "the 4 blocks along axis 0 of the grid assign the same elements of out" in reason
    one_block = problem(program, k=16, n=32, m=13)  # a single block writes each element once
    assert template(program).why_not(one_block, device("a100")) is None


def test_numbers_are_unsigned_in_maxu() -> None:
    program = combining("maxu", "i32")
    p = problem(program, k=16, n=4, m=16)
    inputs = {
        "x": np.full((16, 4), -1, np.int32),
        "ids": np.zeros(16, np.int32),
        "out": np.full((16, 4), 5, np.int32),
    }
    assert np.all(p.expected(inputs)[0]["out"] == -1)  # -1 is the largest unsigned number
    assert np.all(problem(combining("minu", "i32"), k=16, n=4, m=16).expected(inputs)[0]["out"] == 5)


@pytest.mark.parametrize("type_", ["f16", "bf16"])
@pytest.mark.parametrize("where", ["a100", "h100", "t4"])
def test_half_atomics_use_native_instructions_if_available(type_: str, where: str) -> None:
    if (type_, where) == ("bf16", "t4"):
        return  # Turing does not convert to bf16
    native = str(type_ == "f16" or where == "h100").lower()
    for n, count in ((32, 2), (31, 1)):
        source = verified(combining("addf", type_), where, {"k": 64, "n": n, "m": 16}, 3, width=2)
        assert f"tile::add_halves<autosched::{type_}, {count}, {native}>" in source


@pytest.mark.parametrize("type_", ["bf16", "i32"])
def test_repeated_positions_are_combined(type_: str) -> None:
    verified(
        combining("addf" if type_ == "bf16" else "muli", type_, by_position=True), "a100", {"k": 40, "n": 32, "m": 9}, 5
    )


def test_a_lost_element_is_found() -> None:
    """Planted fault: a thread does not retry if another thread has changed the element during its update."""

    def changed(kernel: GeneratedKernel) -> GeneratedKernel:
        texts = dict(kernel.headers.files)
        name, old = "autosched/tile/atomics.cuh", "    if (seen == old) return;\n    old = seen;\n  }\n}\n\n// The V"
        assert texts[name].count(old) == 1
        texts[name] = texts[name].replace(old, "    return;\n  }\n}\n\n// The V")
        return dataclasses.replace(kernel, headers=Headers.of(texts))

    sizes = {"k": 40, "n": 32, "m": 9}
    program = combining("muli", "i32", by_position=True)
    verified(program, "a100", sizes, 5)
    with pytest.raises(AssertionError):
        verified(program, "a100", sizes, 5, changed=changed)
