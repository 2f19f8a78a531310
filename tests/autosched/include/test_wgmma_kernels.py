"""Kernels of wgmma_matmul: rules and static_asserts agree; schedules compile without spills and are correct."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from cases import representative, spread
from compiling import compile_many, shared_pool
from kernels import generate
from needs import needs_compiler, needs_nvrtc
from static_asserts import asserted_rules
from wgmma_cases import CASES, GOOD, H200, PROBLEM, SMALL, TRANSPOSED, small_kernel, small_transposed

from measurements.compiler.pool import Compiled, CompileFailure
from measurements.emulator import FindingKind, emulate
from measurements.runners.tensor_map_builder import fields_of
from measurements.trials.comparison import check
from search_spaces.arrays import Array
from search_spaces.hardware.dtypes import SCALAR_DTYPES
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import Argument
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import TensorMap
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.parameters import Value
from search_spaces.templates.wgmma_matmul.proxy import proxy
from search_spaces.templates.wgmma_matmul.space import space, validity_constraints
from search_spaces.templates.wgmma_matmul.template import WGMMA_MATMUL

U8 = SCALAR_DTYPES["u8"]
ORDERS = [("row", "row"), ("row", "col"), ("col", "row"), ("col", "col")]


def problems() -> list[Matmul]:
    """Return problems of all types, orders, epilogues and batches, with sizes that no tile divides.

    Some problems are small; other problems have enough tiles for clusters and for several tiles per block.
    """
    unequal = []
    for i, (order_a, order_b) in enumerate(ORDERS):
        m, n = ((264 if order_a == "col" else 131, 136), (4040, 1992), (3904, 2040), (264, 101))[i]
        epilogue, out = ("none", "bias+gelu", "relu", "bias+silu")[i], ("", "f32")[i % 2]
        orders = {"order_a": order_a, "order_b": order_b}
        unequal.append(
            Matmul(m, n, 200, batch=1 + i % 2, a=("f16", "bf16")[i // 2], out=out, epilogue=epilogue, **orders)
        )
    # In these problems, threads copy operands, because TMA cannot. The threads use cp.async for both operands or for
    # one operand, or they load misaligned lines and shift these lines in registers.
    copied = (Matmul(131, 514, 4098, order_b="col"), Matmul(264, 516, 200, a="bf16"), Matmul(135, 257, 419, a="f16"))
    return [*unequal, *copied]


def compiled(kernels: list[GeneratedKernel]) -> list[Compiled | CompileFailure]:
    results = dict(compile_many(shared_pool(), kernels, H200.arch))
    return [results[i] for i in range(len(kernels))]


@needs_nvrtc
def test_a_broken_rule_does_not_compile() -> None:
    kernel = generate(PROBLEM, GOOD, H200)
    edits = {
        "consumer_warpgroups": ("tile_m = 128", "tile_m = 64"),
        "consumer_registers": ("consumer_registers = 232", "consumer_registers = 240"),
        "accumulators": ("accumulators = 128", "accumulators = 64"),
        "shared_memory": ("stages = 4", "stages = 5"),
    }
    broken = []
    for old, new in edits.values():
        assert kernel.source.count(f"int {old};") == 1
        broken.append(dataclasses.replace(kernel, source=kernel.source.replace(f"int {old};", f"int {new};")))
    for name, result in zip(edits, compiled(broken), strict=True):
        assert isinstance(result, CompileFailure) and f"rule {name}:" in result.log


def test_every_static_assert_names_a_constraint_or_a_domain() -> None:
    copied = dataclasses.replace(PROBLEM, k=4097)
    names = {rule.name for problem in (PROBLEM, copied) for rule in validity_constraints(problem, H200)}
    # these are not constraints, but attributes, or parameters whose domains have only valid values
    domains = {"swizzle", "accumulators", "alignment", "stages", "access"}
    for name in asserted_rules("autosched/kernels/wgmma_matmul.cuh") - domains:
        assert any(rule.startswith(name) for rule in names), name


@needs_nvrtc
@pytest.mark.parametrize("store_buffers", representative([0, 1], "1"))
def test_a_long_activation_is_in_the_code_for_a_part_of_the_columns(store_buffers: int) -> None:
    plain = Matmul(1024, 1024, 256, a="bf16", order_b="col")
    long = dataclasses.replace(plain, epilogue="bias+gelu")
    its = space(long, H200)
    schedule = next(
        s
        for s in its.sample(2000, 0)
        if s["tile_n"] == 256 and s["store_buffers"] == store_buffers and s["tile_m"] == 128
    )
    short, long_code = compiled([WGMMA_MATMUL.kernel(problem, schedule, H200) for problem in (plain, long)])
    assert isinstance(short, Compiled) and isinstance(long_code, Compiled)
    # If the activation's code was repeated for all 128 accumulators of a thread, the cubin would be 3 times as long.
    assert len(long_code.cubin) < 2 * len(short.cubin)


@needs_nvrtc
def test_sampled_schedules_compile_without_spills(nightly: bool) -> None:
    """Compile some schedules for sm_90a. Compilation also fails if ptxas serialises wgmma."""
    kernels = [generate(PROBLEM, GOOD, H200), generate(PROBLEM, GOOD.replace(tile_m=256, tile_n=192, stages=3), H200)]
    for problem in problems() if nightly else problems()[::2]:
        for schedule in space(problem, H200).sample(50 if nightly else 1, seed=11):
            kernels.append(generate(problem, schedule, H200))
    for kernel, result in zip(kernels, compiled(kernels), strict=True):
        assert isinstance(result, Compiled), result.reason
        assert result.resources.spill_store_bytes == 0, kernel.source


# For each rule against spills: the epilogue, the values of a schedule that the rule rejects, and changes that make this
# schedule legal.
SPILLS: dict[str, tuple[str, dict[str, Value], dict[str, Value]]] = {
    "store_registers": (
        "bias+gelu",
        {
            "tile_m": 256,
            "tile_n": 192,
            "stages": 2,
            "tiles_per_block": 3,
            "stream_k": 1,
            "cluster_m": 1,
            "raster": "column",
        },
        {"store_buffers": 0},
    ),
}


@needs_nvrtc
@pytest.mark.parametrize("rule", SPILLS)
def test_schedules_excluded_by_spill_rules_spill(rule: str) -> None:
    epilogue, changes, instead = SPILLS[rule]
    problem = Matmul(4096, 4096, 4096, a="bf16", order_b="col", epilogue=epilogue)
    left_out = GOOD.replace(producer_registers=24, **changes)
    legal = left_out.replace(**instead)
    its = space(problem, H200)
    assert rule in {v.rule for v in its.explain(left_out)} and rule not in {v.rule for v in its.explain(legal)}
    spilled, unspilled = compiled([generate(problem, schedule, H200) for schedule in (left_out, legal)])
    assert isinstance(spilled, Compiled) and isinstance(unspilled, Compiled)
    assert spilled.resources.spill_store_bytes > 0 == unspilled.resources.spill_store_bytes


@needs_nvrtc
@pytest.mark.parametrize(("cluster_n", "stream_k", "tiles"), representative([(1, 1, 4), (2, 0, 4), (2, 1, 3)], "2-1"))
def test_a_producer_of_few_registers_does_not_spill(cluster_n: int, stream_k: int, tiles: int) -> None:
    """The producer needs the most registers with clusters along both axes, stream-K and Hilbert order."""
    schedule = GOOD.replace(
        producer_registers=24, tile_m=256, tile_n=192, stages=3, tiles_per_block=tiles, stream_k=stream_k,
        cluster_m=2, cluster_n=cluster_n, raster="hilbert",
    )  # fmt: skip
    (result,) = compiled([generate(PROBLEM, schedule, H200)])
    assert isinstance(result, Compiled) and result.resources.spill_store_bytes == 0


@needs_nvrtc
def test_many_boxes_of_an_operand_do_not_spill() -> None:
    """A thread with 24 registers copies 24 boxes of an unswizzled b, and each box goes to both blocks of a cluster."""
    problem = Matmul(4096, 4096, 4096, a="bf16")
    schedule = GOOD.replace(producer_registers=24, tile_n=192, swizzle_b=0)
    (result,) = compiled([generate(problem, schedule, H200)])
    assert isinstance(result, Compiled) and result.resources.spill_store_bytes == 0


@needs_nvrtc
@needs_compiler
@pytest.mark.parametrize("case", spread([*CASES, *TRANSPOSED], 12))
def test_each_decision_matches_the_reference(case: str) -> None:
    """The emulator executes the PTX and reports behaviour that is undefined on hardware."""
    small, kernel = small_kernel(*CASES[case]) if case in CASES else small_transposed(*TRANSPOSED[case])
    inputs = small.random_inputs(0)
    run = emulate(kernel, inputs)
    assert run.ok, (run.reason, run.findings)
    assert check(small, inputs, run.outputs).ok


@needs_nvrtc
@needs_compiler
@pytest.mark.parametrize(
    "case", ["persistent, with stores", "a copied by a warp, b by TMA, ping-pong", "by rows, ping-pong"]
)
def test_fewer_clusters_than_described_compute_all(case: str) -> None:
    """One launched cluster computes all tiles, as on a GPU that runs fewer clusters at a time than assumed.

    A grid that ends within a cluster is rejected.
    """
    small, kernel = small_kernel(*CASES[case]) if case in CASES else small_transposed(*TRANSPOSED[case])
    fewer = dataclasses.replace(kernel, grid=kernel.grid_of(1))
    assert fewer.grid[0] == kernel.cluster[0] < kernel.grid[0]
    inputs = small.random_inputs(0)
    run = emulate(fewer, inputs)
    assert run.ok, (run.reason, run.findings)
    assert check(small, inputs, run.outputs).ok
    if kernel.cluster[0] > 1:
        with pytest.raises(ValueError, match="must be a multiple of the cluster"):
            dataclasses.replace(kernel, grid=(kernel.cluster[0] + 1, 1, 1))


def test_grids_of_several_tiles_a_block_may_shrink_unless_k_is_split() -> None:
    """With stream-K the grid may not shrink, because shared tiles and workspace depend on the number of blocks."""
    for changes, fields in CASES.values():
        _, kernel = small_kernel(changes, fields)
        assert kernel.grid_may_shrink == ("tiles_per_block" in changes and not changes.get("stream_k"))


@needs_nvrtc
@needs_compiler
@pytest.mark.parametrize("changes", [{}, {"tiles_per_block": 4, "cluster_m": 2}, {"split_k": 2}])
def test_tiles_along_a_hilbert_curve(changes: dict[str, int]) -> None:
    """Run 12 x 7 tiles, or 6 x 7 clusters, so that the curve bends. A reduced problem has too few tiles."""
    problem = Matmul(768, 112, 128, a="bf16", order_b="col")
    kernel = generate(problem, SMALL.replace(tile_n=16, raster="hilbert", **changes), H200)
    inputs = problem.random_inputs(0)
    run = emulate(kernel, inputs)
    assert run.ok, (run.reason, run.findings)
    assert check(problem, inputs, run.outputs).ok


def test_a_proxy_keeps_the_decisions_of_its_schedule() -> None:
    """A proxy keeps whole clusters, and several tiles per block if the schedule has them."""
    problem = Matmul(4096, 2056, 1000, order_b="col")
    for schedule in space(problem, H200).sample(60, seed=2):
        small = proxy(problem, schedule)
        config = WGMMA_MATMUL.config(small, schedule, H200)
        if schedule.integer("tiles_per_block") > 1:
            assert config.integer("blocks") > config.integer("launched_blocks")
        if schedule.integer("ping_pong"):
            assert config.integer("blocks") >= 3 * schedule.integer("cluster_m") * schedule.integer("cluster_n") or (
                schedule.integer("tiles_per_block") == 2
            )


@needs_nvrtc
@needs_compiler
@pytest.mark.nightly
@pytest.mark.parametrize("problem", problems(), ids=lambda p: f"{p.m}x{p.n}x{p.k} {p.a} {p.order_a} {p.order_b}")
def test_sampled_schedules_match_the_reference(problem: Matmul) -> None:
    for schedule in space(problem, H200).sample(25, seed=4):
        small = proxy(problem, schedule)
        inputs = small.random_inputs(0)
        run = emulate(generate(small, schedule, H200), inputs)
        assert run.ok, (schedule, run.reason, run.findings)
        assert check(small, inputs, run.outputs).ok, schedule


MAP_PARAMETER = re.compile(r"const __grid_constant__ autosched::ptx::TensorMap (\w+)")
MAKE_A_MAP = """  autosched::ptx::TensorMap& {0} = {0}_made[blockIdx.x];
  if (threadIdx.x == 0) {{
    autosched::ptx::TensorMapFields fields = *{0}_fields;
    fields.address = (unsigned long long){0}_data;
    autosched::ptx::fill_tensor_map(&{0}, fields);
    asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(&{0}) : "memory");
  }}
"""


def making_its_maps(kernel: GeneratedKernel) -> tuple[GeneratedKernel, dict[str, Array]]:
    """Return a changed kernel, whose blocks build their tensor maps in global memory, and the kernel's new inputs."""
    maps = {a.name: a for a in kernel.arguments if isinstance(a, TensorMap)}
    arguments: list[Argument] = []
    inputs = {}
    for argument in kernel.arguments:
        if not isinstance(argument, TensorMap):
            arguments.append(argument)
            continue
        inputs[f"{argument.name}_fields"] = fields_of(argument, 0).view(np.uint8)
        of_fields = Operand(f"{argument.name}_fields", "input", U8, inputs[f"{argument.name}_fields"].shape)
        workspace = Operand(f"{argument.name}_made", "workspace", U8, (kernel.grid[0], 128))
        arguments += [argument.operand, of_fields, workspace]
    head, _, body = kernel.source.rpartition(") {\n")
    head = MAP_PARAMETER.sub(
        r"const void* \1_data, const autosched::ptx::TensorMapFields* \1_fields, autosched::ptx::TensorMap* \1_made",
        head,
    )
    making = "".join(MAKE_A_MAP.format(name) for name in maps) + "  __syncthreads();\n"
    source = f'#include "autosched/ptx/tensor_map/fields.cuh"\n{head}) {{\n{making}{body}'
    return dataclasses.replace(kernel, source=source, arguments=tuple(arguments)), inputs


@needs_compiler
@needs_nvrtc
def test_tensor_maps_built_on_the_device_equal_those_of_the_driver(nightly: bool) -> None:
    small, kernel = small_kernel(*CASES["cluster along m"])
    building, fields = making_its_maps(kernel)
    inputs = small.random_inputs(0)
    run = emulate(building, {**inputs, **fields})
    assert run.ok, (run.reason, run.findings)
    assert check(small, inputs, run.outputs).ok
    if not nightly:
        return
    unfenced = building.source.replace("generic.acquire.gpu [%0], 128;", "generic.release.gpu;")
    findings = emulate(dataclasses.replace(building, source=unfenced), {**inputs, **fields}).findings
    assert {f.kind for f in findings} == {FindingKind.MISSING_PROXY_FENCE}
