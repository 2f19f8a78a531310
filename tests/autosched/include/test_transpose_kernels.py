"""Kernels of transpose and copy: rules and static_asserts agree, sampled schedules compile without spills."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from compiling import compile_many, shared_pool
from kernels import generate, space_of
from static_asserts import asserted_rules

from measurements.compiler.pool import CompileFailure
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.copy import Copy
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Softmax
from search_spaces.operators.transpose import Transpose
from search_spaces.templates.common.cache_hints import LOAD_HINTS, STORE_HINTS
from search_spaces.templates.copy.space import validity_constraints as copy_constraints
from search_spaces.templates.transpose.space import validity_constraints

H200 = device("h200")
PROBLEM = Transpose(96, 96, dtype="u32")
GOOD: dict[str, int | str] = {
    "tile_m": 32, "tile_n": 32, "threads": 64, "copy_x": "ld.global", "vector_x": 4, "copy_columns_x": 8,
    "block_rows": 4, "vector_out": 4, "copy_columns_out": 4, "layout_x": "none", "tiles_per_block": 1, "stages": 1,
    "cache_hint_x": "none", "cache_hint_out": "none", "min_blocks": 1, "raster": "row",
}  # fmt: skip


# each row: a problem, parameter values that break a constraint, the constraint's name, and edits of the source
BROKEN = [
    (PROBLEM, {"copy_columns_x": 32}, "load_map", [("copy_columns_x = 8", "copy_columns_x = 32")]),
    (PROBLEM, {"block_rows": 2}, "in_register", [("block_rows = 4", "block_rows = 2")]),
    (PROBLEM, {"copy_columns_out": 8}, "in_register", [("copy_columns_out = 4", "copy_columns_out = 8")]),
    (PROBLEM, {"copy_x": "cp.async", "block_rows": 1, "vector_out": 1}, "copy_async",
     [('"ld.global"', '"cp.async"'), ("block_rows = 4", "block_rows = 1"), ("vector_out = 4", "vector_out = 1")]),
    (PROBLEM, {"stages": 2}, "stages", [("stages = 1", "stages = 2")]),
    (dataclasses.replace(PROBLEM, columns=98), {}, "load_alignment", [("columns = 96", "columns = 98")]),
    (dataclasses.replace(PROBLEM, rows=98), {}, "store_alignment", [("rows = 96", "rows = 98")]),
]  # fmt: skip


@pytest.mark.parametrize(("problem", "changes", "rule", "edits"), BROKEN, ids=[b[2] + str(b[1]) for b in BROKEN])
def test_the_rule_and_the_static_assert_agree(
    problem: Transpose, changes: dict[str, int | str], rule: str, edits: list[tuple[str, str]]
) -> None:
    good = template("transpose").space(PROBLEM, H200).sample(1, 0)[0].replace(**GOOD)
    with pytest.raises(ValueError, match=rule):
        generate(problem, good.replace(**changes), H200)
    kernel = generate(PROBLEM, good, H200)
    source = kernel.source
    for old, new in edits:
        assert old in source
        source = source.replace(old, new, 1)
    result = shared_pool().compile(dataclasses.replace(kernel, source=source), H200.arch)
    assert isinstance(result, CompileFailure)
    assert rule in re.findall(r"rule (\w+):", result.log), result.log


def test_every_static_assert_names_a_constraint_or_a_domain() -> None:
    names = {rule.name for rule in (*validity_constraints(PROBLEM, H200), *copy_constraints(H200))}
    # The names of these three rules in spaces are load_map, load_alignment and vector_width.
    of_tile_copy = {"copy_map", "copy_alignment", "copy_width"}
    for header in ("autosched/kernels/transpose.cuh", "autosched/kernels/copy.cuh"):
        assert asserted_rules(header) - of_tile_copy - {"vector_width"} <= names


def problems() -> list[Problem]:
    return [
        *(Transpose(4096, 4096, dtype=d) for d in ("u8", "u16", "u32", "u64", "u128")),
        Transpose(67, 133, batch=2, dtype="u8"),
        Transpose(67, 132, dtype="u16"),
        *(Copy(67, 133, dtype=d) for d in ("u8", "u128")),
    ]


def test_sampled_schedules_compile_without_spills(nightly: bool) -> None:
    kernels = []
    for problem in problems():
        for schedule in space_of(problem, H200).sample(8 if nightly else 1, seed=7):
            kernels.append(generate(problem, schedule.replace(min_blocks=1), H200))
    results = dict(compile_many(shared_pool(), kernels, H200.arch))
    assert sorted(results) == list(range(len(kernels)))
    for result in results.values():
        assert not isinstance(result, CompileFailure), result.reason
        assert result.resources.spill_store_bytes == 0


def test_the_register_route_needs_no_shared_memory() -> None:
    good = template("transpose").space(PROBLEM, H200).sample(1, 0)[0].replace(**GOOD)
    assert generate(PROBLEM, good, H200).dynamic_shared_bytes == 0
    assert generate(PROBLEM, good.replace(layout_x="transpose+pad(4,1)"), H200).dynamic_shared_bytes > 0


@pytest.mark.parametrize(
    "problem", [Copy(64, 64), Transpose(64, 64, dtype="u8"), Softmax(64, 64)], ids=lambda p: p.operator
)
def test_cache_hints_reach_the_machine_code(problem: Problem) -> None:
    space = space_of(problem, H200)
    first = next(
        s
        for s in space.sample(40, seed=0)
        if "cp.async" not in s.to_json().values() and s.to_json().get("row_staging") != "shared"
    )
    hints = [{"cache_hint_x": x, "cache_hint_out": out} for x in LOAD_HINTS for out in STORE_HINTS]
    results = compile_many(shared_pool(), [generate(problem, first.replace(**h), H200) for h in hints], H200.arch)
    cubins = {without_texts(result.path) for _, result in results if not isinstance(result, CompileFailure)}
    assert len(cubins) == len(hints) == 8


def without_texts(cubin: Path) -> bytes:
    """Return a cubin without the names of the hints, which every cubin contains even if the code ignores the hints."""
    content = cubin.read_bytes()
    for text in (*LOAD_HINTS, *STORE_HINTS):
        content = content.replace(text.encode().ljust(48, b"\0"), bytes(48))
    return content
