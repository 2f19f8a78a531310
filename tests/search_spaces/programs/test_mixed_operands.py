"""Operands that are stored in one type and multiplied in another."""

from __future__ import annotations

import pytest
from cases import spread
from program_outcome import outcome

from autosched.programs.loading import problem
from search_spaces.hardware.devices import device
from search_spaces.programs.builder import Builder, Input, Output, Program, program
from search_spaces.programs.language.ir import Array
from search_spaces.programs.template import template


def product(left: str, right: str, factor: str, transposed: bool, tile: int) -> Program:
    """Return ``x @ w`` with both factors cast to one type. If ``transposed``, w is stored transposed."""

    @program(x=Input("m k", left), w=Input("n k" if transposed else "k n", right), out=Output("m n", "f32"))
    def mixed(p: Builder, x: Array, w: Array, out: Array) -> None:
        (m, k), n = x.shape, out.shape[1]
        i, j = p.blocks((m, n), (tile, tile))
        acc = p.state(p.zeros((tile, tile)))
        for s in p.steps(k, 32):
            a = p.load(p.window(x, (i, s), (tile, 32)))
            b = p.load(p.window(w, (j, s) if transposed else (s, j), (tile, 32) if transposed else (32, tile)))
            b = p.transpose(b) if transposed else b
            acc.set(p.mma(*(v if v.value.dtype.name == factor else v.cast("f32").cast(factor) for v in (a, b)), acc))
        p.store(acc, p.window(out, (i, j), (tile, tile)))

    return Program(f"mixed_{left}_{right}_{factor}_{transposed}_{tile}", mixed.function, mixed.arguments,
                   f"{left} {right} {factor} {transposed} {tile}", "")  # fmt: skip


FACTORS = [
    ("f16", "i8", "f16", "a100", 32),
    ("u8", "f16", "f16", "t4", 32),
    ("f16", "e4m3", "f16", "h100", 64),
    ("bf16", "e5m2", "bf16", "h100", 64),
    ("f32", "f16", "f16", "a100", 32),
    ("f32", "f32", "bf16", "a100", 32),
    ("f32", "i8", "f32", "a100", 32),
    ("i32", "f32", "f32", "a100", 32),
    ("f16", "bf16", "bf16", "a100", 32),
]


@pytest.mark.parametrize(
    ("left", "right", "factor", "where", "tile", "transposed"),
    spread(
        [(*case, transposed == bool(i % 2)) for i, case in enumerate(FACTORS) for transposed in (False, True)],
        len(FACTORS),
    ),
)
def test_operands_are_converted_in_registers(
    left: str, right: str, factor: str, where: str, tile: int, transposed: bool
) -> None:
    p, on = problem(product(left, right, factor, transposed, tile), m=40, n=72, k=80), device(where)
    own = template(p.program)
    assert own.why_not(p, on) is None
    for number, schedule in enumerate(own.space(p, on).sample(8, 1)):
        kernel = own.kernel(p, schedule, on)
        if number < 1:
            assert outcome(p, kernel) == "ok", schedule
