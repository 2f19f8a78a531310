"""The time of a launch is computed from the launch's counts. It never falls if a count grows, and has lower bounds."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.launch_time import CHAIN_LOAD, MEMORY_SECONDS, CompiledResources, launch_time, least_seconds
from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.costs.launch_counts import LaunchCounts
from search_spaces.hardware.costs.ptx_costs import by_pipe, costs, reaches_shared, tensor_flops
from search_spaces.hardware.devices import all_devices, device

A100, RTX3090 = device("a100"), device("rtx3090")
FMAS = 100_000.0
COUNTS = LaunchCounts(
    blocks=10_000,
    threads=256,
    sampled=1,
    code=200,
    executed=(("fma.rn.f32", FMAS),),
    chain_cycles=5000.0,
    shared_wavefronts=100.0,
    requests=100.0,
    wavefronts=100.0,
    load_sectors=400.0,
    unique_sectors=200.0,
    store_sectors=100.0,
    atomic_sectors=0.0,
    constant_requests=0.0,
    dram_bytes=1e6,
    dynamic_shared_bytes=0,
    operand_bytes=1_000_000,
)
RESOURCES = CompiledResources(32)
GROWING = ("chain_cycles", "shared_wavefronts", "wavefronts", "unique_sectors", "store_sectors", "dram_bytes")


@pytest.mark.parametrize("chip", all_devices(), ids=lambda d: d.name)
def test_no_kernel_is_faster_than_the_peak_of_the_device(chip: object) -> None:
    seconds = launch_time(COUNTS, chip, RESOURCES).seconds  # type: ignore[arg-type]
    flops = FMAS * 32 * 2 * COUNTS.blocks
    assert flops / seconds <= chip.fma_peak  # type: ignore[attr-defined]


def test_the_power_limit_lengthens_launches_that_multiply_without_a_pause() -> None:
    wgmma = "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"
    multiplying = dataclasses.replace(COUNTS, executed=((wgmma, 1e4),), chain_cycles=0.0)
    h100 = device("h100")
    burst = dataclasses.replace(h100, sustained_clock_hz=0.0)
    slowdown = launch_time(multiplying, h100, RESOURCES).seconds / launch_time(multiplying, burst, RESOURCES).seconds
    assert 1.05 < slowdown < h100.tensor_clock_hz / h100.sustained_clock_hz
    assert launch_time(COUNTS, h100, RESOURCES).seconds == launch_time(COUNTS, burst, RESOURCES).seconds


@given(st.sampled_from(GROWING), st.floats(1, 1e6))
def test_more_of_anything_is_never_faster(name: str, more: float) -> None:
    larger = dataclasses.replace(COUNTS, **{name: getattr(COUNTS, name) + more})
    assert launch_time(larger, A100, RESOURCES).seconds >= launch_time(COUNTS, A100, RESOURCES).seconds


def test_lines_that_a_narrow_l1_holds_take_longer() -> None:
    repeated_loads = dataclasses.replace(COUNTS, wavefronts=1e5, load_sectors=4e5, unique_sectors=4e3, executed=())
    missed = dataclasses.replace(repeated_loads, load_sectors=4e3)
    for chip, longer in ((A100, False), (device("h200"), False), (RTX3090, True), (device("titan_rtx"), True)):
        held, passing = (launch_time(counts, chip, RESOURCES).pipes["L1"] for counts in (repeated_loads, missed))
        assert (held > 1.9 * passing) is longer and held >= passing


@pytest.mark.parametrize(("pipe", "load"), [("shared", "ld.shared.f32"), ("L1", "ld.global.f32")])
def test_few_units_take_the_addresses_of_an_instruction_in_two_cycles(pipe: str, load: str) -> None:
    loads = 1e5  # number of warp loads with one word per lane; with four words per lane, a quarter as many are needed
    kinds = {"shared": ("shared_wavefronts",), "L1": ("wavefronts",)}[pipe]
    words, vectors = (
        dataclasses.replace(COUNTS, executed=((load, n),), load_sectors=200.0, **dict.fromkeys(kinds, loads))
        for n in (loads, loads / 4)
    )
    for chip, cycles in (
        (A100, loads),
        (device("h200"), loads),
        (RTX3090, 2 * loads),
        (device("titan_rtx"), 2 * loads),
    ):
        assert launch_time(words, chip, RESOURCES).pipes[pipe] == pytest.approx(cycles, rel=0.01)
        assert launch_time(vectors, chip, RESOURCES).pipes[pipe] == pytest.approx(loads, rel=0.01)


@pytest.mark.parametrize(
    ("operation", "reaches"),
    [
        ("ld.shared.v4.f32", True),
        ("st.shared.u32", True),
        ("red.shared::cta.add.u32", True),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", True),
        ("cp.async.ca.shared.global", False),
        ("mbarrier.arrive.shared.b64", False),
        ("ld.global.f32", False),
        ("shfl.sync.bfly.b32", False),
    ],
)
def test_instructions_that_reach_shared_memory(operation: str, reaches: bool) -> None:
    assert reaches_shared(operation) is reaches


@given(st.sampled_from([name for name in GROWING if name != "unique_sectors"]), st.floats(1, 1e6))
def test_more_work_is_never_faster_on_other_devices(name: str, more: float) -> None:
    larger = dataclasses.replace(COUNTS, **{name: getattr(COUNTS, name) + more})
    assert launch_time(larger, RTX3090, RESOURCES).seconds >= launch_time(COUNTS, RTX3090, RESOURCES).seconds


def test_f64_runs_at_its_rate() -> None:
    doubles = dataclasses.replace(COUNTS, executed=(("fma.rn.f64", FMAS),))
    on_a100, on_3090 = (
        launch_time(doubles, d, RESOURCES).seconds / launch_time(COUNTS, d, RESOURCES).seconds for d in (A100, RTX3090)
    )
    assert 1.5 < on_a100 < 2.5 and 30 < on_3090 < 70
    stated = CostCounts(10_000, 256, 0, 32, "fma", "f32", 6.4e6, 0, 0, 0, 0, 0.0, 1, 1, 0)
    assert least_seconds(doubles, stated, RTX3090) == pytest.approx(6.4e10 / (2 * 2 * 82 * RTX3090.clock_hz))


def test_static_shared_memory_and_registers_bound_the_occupancy() -> None:
    assert launch_time(COUNTS, A100, RESOURCES).occupancy == 8
    assert launch_time(COUNTS, A100, CompiledResources(32, 0, 42 << 10)).occupancy == 3
    assert launch_time(COUNTS, A100, CompiledResources(128)).occupancy == 2
    with pytest.raises(ValueError, match="does not fit on a100"):
        launch_time(COUNTS, A100, CompiledResources(32, 0, 200 << 10))


def test_spills_in_loops_count_each_time() -> None:
    spilled = launch_time(COUNTS, A100, CompiledResources(32, 256)).seconds
    assert spilled > 1.05 * launch_time(COUNTS, A100, RESOURCES).seconds


@pytest.mark.parametrize(
    ("operation", "pipes"),
    [
        ("fma.rn.f32", {"fma": 1.0}),
        ("mov.u32", {}),
        ("cvta.to.global.u64", {}),
        ("ld.param.u64", {}),
        ("ld.global.nc.v4.f32", {"memory": 1.0}),
        ("ld.const.f32", {"constant": 1.0}),
        ("ld.const.f32+immediate", {}),
        ("fma.rn.f64", {"f64": 1.0}),
        ("mad.lo.s32", {"imad": 1.0}),
        ("mul.wide.s32", {"imad": 1.0}),
        ("add.s64", {"alu": 1.5}),
        ("cvt.rn.f32.s32", {"special": 1.0}),
        ("ex2.approx.ftz.f32", {"special": 1.0, "fma": 0.5}),
        ("bar.sync", {"control": 1.0}),
    ],
)
def test_operations_keep_their_pipes_busy(operation: str, pipes: dict[str, float]) -> None:
    assert by_pipe({operation: 1.0}) == pipes
    assert dict(costs(operation)) == pipes


@pytest.mark.parametrize(
    ("operation", "flops"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", (4096.0, "f16")),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", (2048.0, "tf32")),
        ("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16", (65536.0, "bf16")),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", (8192.0, "i8")),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", (8192.0, "f16")),
        ("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16", (0.0, "")),
        ("tcgen05.mma.cta_group::1.kind::f16.m128n256k16.bf16", (1048576.0, "bf16")),
        ("tcgen05.mma.cta_group::2.kind::i8.m256n256k32.u8", (4194304.0, "i8")),
        ("tcgen05.mma.cta_group::1.kind::f8f6f4.m128n64k32.e2m3", (524288.0, "e4m3")),
        ("tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.m128n128k64.e2m1", (2097152.0, "nvf4")),
        ("tcgen05.mma.cta_group::1.kind::f16", (0.0, "")),
        ("tcgen05.ld.sync.aligned.32x32b.x128.b32", (0.0, "")),
        ("fma.rn.f32", (0.0, "")),
    ],
)
def test_flops_of_matrix_instructions(operation: str, flops: tuple[float, str]) -> None:
    assert tensor_flops(operation) == flops


@given(st.integers(1, 100_000), st.floats(0, 1e5))
def test_a_cold_l2_never_makes_a_launch_faster(blocks: int, chain: float) -> None:
    counts = dataclasses.replace(COUNTS, blocks=blocks, chain_cycles=chain)
    warm, cold = (launch_time(counts, A100, RESOURCES, cold=c).seconds for c in (False, True))
    assert warm <= cold
    assert launch_time(counts, A100, RESOURCES, exposed=1.0).seconds >= warm


def test_only_the_first_wave_waits_for_memory() -> None:
    """With one wave of blocks, a chain of loads waits for DRAM; with many waves, this hardly matters."""

    def ratio(blocks: int) -> float:
        counts = dataclasses.replace(COUNTS, blocks=blocks, chain_cycles=1e6, executed=(), dram_bytes=1.0)
        warm, cold = (launch_time(counts, A100, RESOURCES, exposed=1.0, cold=c).sm_seconds for c in (False, True))
        return cold / warm

    assert ratio(A100.sm_count) == pytest.approx(MEMORY_SECONDS * A100.clock_hz / CHAIN_LOAD, rel=0.01)
    assert 1.0 < ratio(100 * 8 * A100.sm_count) < 1.02


def test_counted_spilled_words_replace_the_average() -> None:
    """Spilled words outside of a loop are moved once, however often the loop's instructions execute."""
    spilling = CompiledResources(32, spill_bytes=64)
    on_average, none, counted = (
        launch_time(dataclasses.replace(COUNTS, spilled_words=words), A100, resources).pipes["L1"]
        for words, resources in ((None, spilling), (0.0, spilling), (100.0, RESOURCES))
    )
    calm = launch_time(COUNTS, A100, RESOURCES).pipes["L1"]
    assert on_average > none == calm and counted == calm + 100
