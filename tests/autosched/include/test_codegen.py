"""Generated source only instantiates device code, rules agree with static_asserts, and sampled schedules compile."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from compiling import compile_many, shared_pool
from kernels import generate
from static_asserts import asserted_rules

from measurements.compiler.pool import CompileFailure
from search_spaces.hardware.devices import device
from search_spaces.launches.headers import include_dir
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.matmul.space import space, validity_constraints

H200 = device("h200")
PROBLEM = Matmul(512, 512, 512)
GOOD = Schedule.from_json(
    "matmul",
    {
        "tile_m": 128,
        "tile_n": 128,
        "tile_k": 32,
        "intrinsic": "mma_m16n8k16_f16",
        "subgroups_m": 2,
        "subgroups_n": 2,
        "sg_data_m": 64,
        "sg_data_n": 64,
        "layout_a": "swizzle(2,3,3)",
        "layout_b": "swizzle(3,3,4)",
        "copy_a": "cp.async",
        "copy_b": "cp.async",
        "vector_a": 8,
        "vector_b": 8,
        "copy_columns_a": 4,
        "copy_columns_b": 16,
        "stages": 3,
        "unroll": 2,
        "fragment_buffers": 1,
        "epilogue": "registers",
        "min_blocks": 1,
        "split_k": 1,
        "stream_k": 0,
        "raster": "row",
        "batch_mapping": "outer",
    },
)

STREAMS = (("stream_k = 0", "stream_k = 1"), ("launched_blocks = 16", "launched_blocks = 7"))
# each row: parameter values that break a constraint, the constraint's name, and edits of the generated source
BROKEN = [
    ({"sg_data_m": 48}, "wg_map_m", [("sg_data_m = 64", "sg_data_m = 48")]),
    ({"sg_data_n": 48}, "wg_map_n", [("sg_data_n = 64", "sg_data_n = 48")]),
    ({"sg_data_m": 8}, "fragments_m", [("sg_data_m = 64", "sg_data_m = 8")]),
    ({"unroll": 4}, "unroll", [("unroll = 2", "unroll = 4")]),
    (
        {"fragment_buffers": 2, "unroll": 1},
        "fragment_steps",
        [("fragment_buffers = 1", "fragment_buffers = 2"), ("unroll = 2", "unroll = 1")],
    ),
    ({"copy_columns_a": 64}, "copy_map_a", [("copy_columns_a = 4", "copy_columns_a = 64")]),
    ({"copy_columns_b": 1}, "copy_map_b", [("copy_columns_b = 16", "copy_columns_b = 1")]),
    ({"vector_a": 1, "copy_columns_a": 32}, "copy_async_a", [("int vector_a = 8", "int vector_a = 1")]),
    ({"split_k": 16, "tile_k": 128, "stages": 1}, "split_k", [("split_k = 1", "split_k = 16"), ("k = 512", "k = 96")]),
    (
        {"subgroups_m": 8, "subgroups_n": 8, "sg_data_m": 16, "sg_data_n": 16},
        "threads",
        [("subgroups_m = 2", "subgroups_m = 8"), ("subgroups_n = 2", "subgroups_n = 8"),
         ("sg_data_m = 64", "sg_data_m = 16"), ("sg_data_n = 64", "sg_data_n = 16")],
    ),
    (
        {"stream_k": 1, "split_k": 2},
        "stream_k_split",
        [("split_k = 1", "split_k = 2"), ("tiles_of_split = 16", "tiles_of_split = 8"), *STREAMS],
    ),
    ({"stream_k": 1, "tile_m": 256, "tile_n": 256, "subgroups_m": 4, "subgroups_n": 4}, "stream_k_waves",
     [("stream_k = 0", "stream_k = 1"), ("launched_blocks = 16", "launched_blocks = 8")]),
    ({"stream_k": 1, "intrinsic": "wmma_m16n16k16_f16", "epilogue": "shared"}, "stream_k_intrinsic",
     [('intrinsic = "mma_m16n8k16_f16"', 'intrinsic = "wmma_m16n16k16_f16"'), *STREAMS]),
    ({"stream_k": 1, "stages": 1}, "stream_k_tiles",
     [("tiles_k = 16", "tiles_k = 1"), ("tiles_of_split = 16", "tiles_of_split = 1"), ("int k = 512", "int k = 32"),
      *STREAMS]),
    (
        {"intrinsic": "wmma_m16n16k16_f16", "layout_a": "pad(8,1)", "layout_b": "pad(8,1)"},
        "epilogue",
        [("autosched::MmaSync<", "autosched::Wmma<")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "rule", "edits"), BROKEN, ids=[f"{rule}-{next(iter(c))}" for c, rule, _ in BROKEN])
def test_the_rule_and_the_static_assert_agree(
    changes: dict[str, int | str], rule: str, edits: list[tuple[str, str]]
) -> None:
    problem = {"split_k": Matmul(512, 512, 96), "stream_k_tiles": Matmul(512, 512, 32)}.get(rule, PROBLEM)
    broken = GOOD.replace(**changes)
    violations = {v.rule: v.reason for v in space(problem, H200).explain(broken) if v.rule in _constraints()}
    assert rule in violations
    assert violations[rule].strip() and "\n" not in violations[rule]
    with pytest.raises(ValueError, match="|".join(violations)):
        generate(problem, broken, H200)

    kernel = generate(PROBLEM, GOOD, H200)
    source = kernel.source
    for old, new in edits:
        assert old in source
        source = source.replace(old, new, 1)
    result = shared_pool().compile(dataclasses.replace(kernel, source=source), H200.arch)
    assert isinstance(result, CompileFailure)
    named = re.findall(r"rule (\w+):", result.log)
    assert any(rule.startswith(name) for name in named), result.log


def _constraints() -> set[str]:
    scaled = Matmul(512, 512, 512, a="mxf8")
    rules = (*validity_constraints(PROBLEM, H200), *validity_constraints(scaled, device("rtx5090")))
    return {r.name for r in rules}


def test_every_static_assert_names_a_constraint_or_a_domain() -> None:
    # these need no constraint: they are attributes, or parameters whose domains have only valid values
    domains = {"stages", "copy_width", "accumulators", "tiles", "parts"}
    for name in asserted_rules("autosched/kernels/matmul.cuh") - domains:
        assert any(rule.startswith(name) for rule in _constraints()), name


def test_the_generated_tail_only_instantiates() -> None:
    source = generate(PROBLEM, GOOD, H200).source
    assert source.count("#include") == 1
    assert "asm" not in source and "for" not in source.split("struct Config")[0]
    entry = source.split('extern "C"')[1]
    assert entry.count(";") == 1


def test_inline_ptx_is_only_in_the_ptx_folder() -> None:
    for header in Path(include_dir()).rglob("*.cuh"):
        if "ptx" not in header.relative_to(include_dir()).parts:
            assert "asm" not in header.read_text(), header


def sampled_problems() -> list[Matmul]:
    problems = []
    for i, dtype in enumerate(("f16", "bf16", "f32")):
        for j, (order_a, order_b) in enumerate([("row", "row"), ("row", "col"), ("col", "row"), ("col", "col")]):
            sizes = [(256, 256, 256), (131, 70, 99), (17, 33, 77), (1024, 96, 200)][(i + j) % 4]
            epilogue = ("none", "bias", "relu", "bias+gelu", "silu", "bias+silu")[(i * 4 + j) % 6]
            out = ("f16", "bf16", "f32")[(i + j) % 3]
            problems.append(
                Matmul(*sizes, batch=1 + j % 2, a=dtype, b=dtype, out=out, order_a=order_a, order_b=order_b,
                       epilogue=epilogue)
            )  # fmt: skip
    return problems


@pytest.mark.parametrize(("part", "name"), list(enumerate(["a100", "rtx4090", "h200"])))
def test_sampled_schedules_compile(part: int, name: str, nightly: bool) -> None:
    """Compile schedules for all types, orders and epilogues, and odd sizes, for sm_80, sm_89 and sm_90a."""
    target = device(name)
    kernels = [
        generate(problem, schedule, target)
        for problem in (sampled_problems() if nightly else sampled_problems()[part::5])
        for schedule in space(problem, target).sample(18 if nightly else 1, seed=7)
    ]
    assert len(kernels) >= 2
    results = dict(compile_many(shared_pool(), kernels, target.arch))
    assert sorted(results) == list(range(len(kernels)))
    failures = [r for r in results.values() if isinstance(r, CompileFailure)]
    assert not failures, failures[0].reason
