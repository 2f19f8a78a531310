"""The swizzle's xor is the last step of a fragment's address if, and only if, every tile is sufficiently aligned."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autosched.programs.loading import load_program, problem
from measurements.emulator import ASCENDING, Order, emulate
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.programs.template import template
from search_spaces.spaces.schedule import Schedule

A100 = device("a100")
ATTENTION = load_program(f"{Path(__file__).parents[3] / 'examples' / 'programs' / 'attention.py'}:full_attention")


def outcome(
    query: str, stages: int = 2, changed: Callable[[GeneratedKernel], GeneratedKernel] = lambda kernel: kernel
) -> tuple[str, list[int]]:
    """Emulate attention. Return "ok", "wrong" or the emulator's status, and the alignments of the tiles in bytes.

    A head has 128 elements. The layouts of keys and values are swizzles that flip three address bits.
    """
    p = problem(ATTENTION, h=1, g=1, s=150, d=128)
    values: dict[str, int | str] = {
        "bm": 64, "bn": 64, "subgroups_m_1": 4, "subgroups_n_1": 1, "subgroups_m_2": 4, "subgroups_n_2": 1,
        "stages": stages,
        "sum_1": "after_loop", "store_1": "direct", "exchange": "pad(4,1)", "home_q": "shared", "min_blocks": 1,
        "raster": "row", "intrinsic": "mma_m16n8k16_f16", "tail": "masked",
    }  # fmt: skip
    for name, layout in (("q", query), ("k", "transpose+swizzle(3,3,4)"), ("v", "swizzle(3,3,4)")):
        copy = {"layout": layout, "copy": "cp.async", "vector": 4, "copy_columns": 16}
        values |= {f"{key}_{name}": value for key, value in copy.items()}
    space = template(ATTENTION).space(p, A100)
    parameter_names = {q.name for q in space.parameters}
    ones = {q.name: q.values[0] for q in space.parameters if len(q.values) == 1}
    schedule = Schedule.from_json(ATTENTION.name, {n: v for n, v in values.items() if n in parameter_names} | ones)
    space.valid.validate(schedule)
    kernel, inputs = changed(template(ATTENTION).kernel(p, schedule, A100)), p.random_inputs(2)
    alignments = [int(n) for n in re.findall(r"int alignment = (\d+)", kernel.source)]
    expected, bounds = p.expected(inputs)
    (out,) = (o for o in p.operands() if o.role == "output")
    for order in (ASCENDING, Order("random", seed=3)):
        run = emulate(kernel, inputs, time_limit=60.0, order=order)
        if run.status != "ok":
            return str(run.status), alignments
        if not np.all(np.abs(out.dtype.load(run.outputs[out.name]) - expected[out.name]) <= bounds[out.name]):
            return "wrong", alignments
    return "ok", alignments


def further_on(kernel: GeneratedKernel, alignment: int) -> GeneratedKernel:
    """Move the pipeline's ring by 128 bytes, and declare ``alignment`` for the operands' tiles."""
    ring = re.compile(r"(tile::pipeline.*shared \+ )(\d+)u")
    source = ring.sub(lambda m: f"{m[1]}{int(m[2]) + 128}u", kernel.source)
    assert source != kernel.source
    source = source.replace("int alignment = 1024", f"int alignment = {alignment}")
    return dataclasses.replace(kernel, source=source, dynamic_shared_bytes=kernel.dynamic_shared_bytes + 128)


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_aligned_tiles(stages: int) -> None:
    status, alignments = outcome("swizzle(3,3,4)", stages)
    assert status == "ok" and alignments == [1024, 1024, 1024]


def test_a_tile_after_a_padded_tile_is_aligned() -> None:
    status, alignments = outcome("pad(8,4)")
    assert status == "ok" and alignments == [1024, 256, 256]


def test_swizzles_that_overlap_address_bits_are_reported() -> None:
    assert outcome("swizzle(3,3,4)", changed=lambda kernel: further_on(kernel, 128))[0] == "ok"
    assert outcome("swizzle(3,3,4)", changed=lambda kernel: further_on(kernel, 1024))[0] != "ok"
