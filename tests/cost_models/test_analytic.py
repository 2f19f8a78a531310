"""Properties of the analytic model, and absolute times of kernels whose speed is published."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.analytic import CLUSTER_START, L2_LATENCY, LAUNCH_SECONDS, analyse, busy, predict
from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.devices import Device, all_devices, device
from search_spaces.hardware.units import unit

H200 = device("h200")


def matmul(
    size: int = 4096,
    tile: tuple[int, int, int] = (128, 128, 32),
    warp: tuple[int, int] = (64, 32),
    stages: int = 4,
    unit: str = "mma",
    registers: int = 128,
    conflicts: float = 1.0,
) -> CostCounts:
    """Return counts of a matmul of size^3 in f16, or in f32 for fma. ``warp`` is the shape that a warp computes."""
    m, n, k = tile
    element = 4 if unit == "fma" else 2
    warps, steps = (m // warp[0]) * (n // warp[1]), size // k
    stage = (m + n) * k * element
    flops = 2.0 * m * n * k
    reads = warps * (warp[0] + warp[1]) * k * element / 128 * conflicts
    multiplies = flops / 64 if unit == "fma" else flops / 4096
    return CostCounts(
        blocks=(size // m) * (size // n),
        threads=32 * warps,
        shared_bytes=stage * stages,
        registers=registers,
        unit=unit,
        operand_dtype="f32" if unit == "fma" else "f16",
        flops=flops * steps,
        instructions=(multiplies + reads / 2 + stage / 256 + 20 * warps) * steps,
        shared_wavefronts=(reads + stage / 128) * steps,
        load_bytes=float(stage * steps),
        store_bytes=float(m * n * element),
        dram_bytes=4.5 * size * size * element,
        iterations=steps,
        stages=stages,
        barriers_per_iteration=1 if stages > 1 else 2,
    )


def tflops(work: CostCounts, on: Device = H200, size: int = 4096) -> float:
    return 2.0 * size**3 / predict(work, on) / 1e12


def test_a_good_mma_sync_matmul_is_in_the_published_range() -> None:
    assert 250 < tflops(matmul(stages=3)) < 550
    assert 250 < tflops(matmul(tile=(128, 256, 32), warp=(64, 64), registers=200)) < 550


def test_units_are_ordered_as_published() -> None:
    mma, wmma, fma = tflops(matmul()), tflops(matmul(unit="wmma")), tflops(matmul(unit="fma", tile=(128, 128, 16)))
    assert wmma < 0.65 * mma
    assert 30 < fma < 67
    assert fma < 0.5 * wmma


def test_an_a100_runs_mma_sync_at_its_full_tensor_rate() -> None:
    assert 180 < tflops(matmul(), device("a100")) < 312


def test_overlapping_loads_pays_and_small_tiles_do_not() -> None:
    times = [predict(matmul(stages=s), H200) for s in (1, 2, 3)]
    assert times[0] > 1.15 * times[1] >= 1.15 * times[2]
    small = matmul(tile=(32, 32, 32), warp=(16, 16), registers=64)
    assert predict(small, H200) > 2 * predict(matmul(), H200)


def test_a_single_block_pays_the_latency_of_every_step() -> None:
    """With one warp and one stage, a step takes at least a round trip to L2."""
    lonely = dataclasses.replace(matmul(stages=1), blocks=1, threads=32, flops=1e3, instructions=1e3, load_bytes=1e3)
    lonely = dataclasses.replace(lonely, shared_wavefronts=1e2, store_bytes=0.0, dram_bytes=0.0)
    assert predict(lonely, H200) > lonely.iterations * 270 / H200.clock_hz


def test_one_block_more_than_a_wave_costs_another_round() -> None:
    two_waves = dataclasses.replace(matmul(), blocks=132 * 2, dram_bytes=1e6)
    times = [predict(dataclasses.replace(two_waves, blocks=132 * 2 + more), H200) for more in (0, 1, 132)]
    assert times[1] > 1.3 * times[0]
    assert times[2] == pytest.approx(times[1], rel=0.03)


# devices with tensor cores for all operand types that `works` draws
MODERN = [row for row in all_devices() if row.has("bf16")]


@st.composite
def works(draw: st.DrawFn) -> CostCounts:
    def count(most: float) -> float:
        return draw(st.floats(0.0, most, allow_nan=False))

    unit: str = draw(st.sampled_from(("fma", "wmma", "mma")))
    return CostCounts(
        blocks=draw(st.integers(1, 5000)),
        threads=32 * draw(st.integers(1, 32)),
        shared_bytes=draw(st.integers(0, 101376)),
        registers=draw(st.integers(16, 400)),
        unit=unit,
        operand_dtype="f32" if unit == "fma" else draw(st.sampled_from(("f16", "bf16", "tf32"))),
        flops=count(1e10),
        instructions=count(1e7),
        shared_wavefronts=count(1e7),
        load_bytes=count(1e8),
        store_bytes=count(1e6),
        dram_bytes=count(1e10),
        iterations=draw(st.integers(1, 1000)),
        stages=draw(st.integers(1, 5)),
        barriers_per_iteration=draw(st.integers(0, 3)),
        launches=draw(st.integers(1, 2)),
        alone_bytes=count(1e7),
        multicast_bytes=count(1e8),
        drains=draw(st.integers(0, 8)),
        restarts=draw(st.integers(0, 8)),
        drain_instructions=count(1e5),
    )


def test_clusters_pay_for_the_sms_that_they_leave_idle() -> None:
    # an H200 has 66 TPCs of 2 SMs each; each of its 8 GPCs holds 4 clusters of 4 blocks
    work = dataclasses.replace(matmul(), blocks=132)
    alone, pairs, fours = (predict(dataclasses.replace(work, cluster=size), H200) for size in (1, 2, 4))
    assert alone < pairs < 1.02 * alone < 0.8 * fours
    assert H200.sms_of_clusters(4) == 128
    fits = dataclasses.replace(work, blocks=H200.running_sms(4))
    more = CLUSTER_START / H200.clock_hz  # extra time, since the blocks of a cluster start together
    assert predict(dataclasses.replace(fits, cluster=4), H200) == pytest.approx(predict(fits, H200) + more, rel=1e-3)
    assert busy(dataclasses.replace(work, cluster=4), H200)["tensor cores"] <= 1.0


def test_the_end_of_a_launch_does_not_overlap_with_dram() -> None:
    # DRAM limits the launch, but the round trips of the last blocks start only when DRAM is already idle.
    work = dataclasses.replace(matmul(), dram_bytes=2e9)
    split = dataclasses.replace(work, round_trips=3.0)
    cycles = (predict(split, H200) - predict(work, H200)) * H200.clock_hz
    assert cycles > 3 * 0.9 * L2_LATENCY


@given(work=works(), on=st.sampled_from(MODERN))
def test_predictions_are_never_below_the_roofline(work: CostCounts, on: Device) -> None:
    seconds = predict(work, on)
    row = unit(work.unit)
    active = min(work.blocks, on.sm_count)
    per_sm = work.blocks / active
    assert math.isfinite(seconds)
    assert seconds >= LAUNCH_SECONDS
    assert seconds >= work.dram_bytes / on.dram_bandwidth
    assert seconds >= per_sm * work.flops / row.flops_per_cycle(on, work.operand_dtype) / row.clock_hz(on)
    assert seconds >= per_sm * work.instructions / 4 / on.clock_hz
    assert seconds >= per_sm * work.shared_wavefronts / on.clock_hz
    assert seconds >= work.blocks * (work.load_bytes + work.store_bytes) / on.l2_bandwidth * (1 - 1e-9)


@given(work=works(), on=st.sampled_from(MODERN), factor=st.floats(1.0, 8.0))
@pytest.mark.parametrize(
    "field",
    [
        *("flops", "instructions", "shared_wavefronts", "load_bytes", "dram_bytes", "alone_bytes", "multicast_bytes"),
        *("drains", "drain_instructions", "restarts", "round_trips", "alone_trips", "copying_cycles", "longest"),
    ],
)
def test_more_of_anything_is_never_faster(field: str, work: CostCounts, on: Device, factor: float) -> None:
    more = dataclasses.replace(work, **{field: type(getattr(work, field))(math.ceil(getattr(work, field) * factor))})
    assert predict(more, on) >= predict(work, on) * (1 - 1e-9)


@settings(max_examples=50)
@given(work=works(), on=st.sampled_from(MODERN), spill=st.integers(0, 512))
def test_spills_and_barriers_are_never_faster(work: CostCounts, on: Device, spill: int) -> None:
    assert predict(work, on, spill_bytes=spill + 8) >= predict(work, on, spill_bytes=spill)
    more = dataclasses.replace(work, barriers_per_iteration=work.barriers_per_iteration + 1)
    assert predict(more, on) >= predict(work, on)


def test_a_second_launch_costs_a_launch_and_a_last_block_its_own_time() -> None:
    once = predict(matmul(), H200)
    assert predict(dataclasses.replace(matmul(), launches=2), H200) == pytest.approx(once + LAUNCH_SECONDS)
    alone = predict(dataclasses.replace(matmul(), alone_bytes=64e6), H200)
    assert alone - once == pytest.approx(1e6 / H200.clock_hz)  # 64 MB at 64 bytes per cycle


def test_a_spill_in_the_main_loop_hurts_much() -> None:
    assert predict(matmul(), H200, registers=128, spill_bytes=512) > 2 * predict(matmul(), H200, registers=128)


def test_an_estimate_beyond_the_device_counts_as_spilled() -> None:
    greedy = matmul(registers=300)
    assert predict(greedy, H200) == predict(matmul(registers=255), H200, spill_bytes=4 * 45)


def test_registers_of_the_compiler_replace_the_estimate() -> None:
    assert predict(matmul(registers=250), H200, registers=128) == predict(matmul(registers=128), H200)


def test_a_batch_is_predicted_like_single_schedules() -> None:
    many = [matmul(), matmul(stages=1), matmul(unit="fma"), matmul(tile=(64, 64, 32), warp=(32, 32))]
    together = analyse(many, H200)
    assert together.seconds.tolist() == [predict(work, H200) for work in many]
    spilled = analyse(many, H200, registers=[64, 96, 128, 128], spill_bytes=[0, 4, 8, 16])
    alone = [
        predict(work, H200, registers=r, spill_bytes=s)
        for work, r, s in zip(many, (64, 96, 128, 128), (0, 4, 8, 16), strict=True)
    ]
    assert spilled.seconds.tolist() == alone


def test_the_parts_explain_the_whole() -> None:
    estimates = analyse([matmul(stages=3)], H200)
    assert estimates.occupancy.tolist() == [2]
    assert estimates.waves[0] == pytest.approx(1024 / (132 * 2))
    peak = 4096 * 0.63 * H200.tensor_clock_hz / H200.clock_hz  # under load of the tensor cores, the clock is lower
    assert estimates.math[0] == pytest.approx(2.0 * 128 * 128 * 4096 / peak)
    assert np.all(estimates.seconds >= np.maximum(estimates.sm_seconds, estimates.dram_seconds))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"flops": float("nan")}, "finite"),
        ({"dram_bytes": float("inf")}, "finite"),
        ({"load_bytes": -1.0}, "not negative"),
        ({"blocks": 0}, "at least 1"),
        ({"iterations": 0}, "at least 1"),
        ({"stages": 0}, "at least 1"),
        ({"launches": 0}, "at least 1"),
        ({"shared_bytes": 300_000}, "does not fit on h200"),
        ({"threads": 2048}, "does not fit on h200"),
        ({"unit": "mma", "operand_dtype": "f32"}, "no tensor rate"),
    ],
)
def test_impossible_work_is_rejected(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        predict(dataclasses.replace(matmul(), **change), H200)  # type: ignore[arg-type]


def test_registers_that_do_not_fit_are_rejected() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        predict(dataclasses.replace(matmul(), threads=1024), H200, registers=128)
    with pytest.raises(ValueError, match="spill_bytes"):
        predict(matmul(), H200, spill_bytes=-4)


def copy_like(**changes: float) -> CostCounts:
    """Return counts of a kernel that streams 256 MiB through DRAM and does nothing else."""
    blocks, moved = 132 * 16, 128 * 2**20
    work = CostCounts(
        blocks=blocks,
        threads=256,
        shared_bytes=0,
        registers=32,
        unit="fma",
        operand_dtype="f32",
        flops=0.0,
        instructions=moved / blocks / 512 * 4,
        shared_wavefronts=0.0,
        load_bytes=moved / blocks,
        store_bytes=moved / blocks,
        dram_bytes=2.0 * moved,
        iterations=4,
        stages=1,
        barriers_per_iteration=0,
    )
    return dataclasses.replace(work, **changes)  # type: ignore[arg-type]


def test_a_short_step_between_barriers_costs_more_than_a_long_one() -> None:
    times = [predict(dataclasses.replace(matmul(tile=(128, 128, k), stages=3), registers=200), H200) for k in (16, 64)]
    assert times[0] > 1.05 * times[1]


def test_few_bytes_in_flight_cannot_use_all_of_dram() -> None:
    """With 40 KiB or more in flight per SM, a copy nearly reaches DRAM's bandwidth; with 10 KiB, it is much slower."""
    enough, few = (
        copy_like(
            iterations=n, threads=1024, registers=64, blocks=132 * 16, load_bytes=64e3, dram_bytes=132 * 16 * 128e3
        )
        for n in (1, 16)
    )
    assert predict(few, H200) > 1.3 * predict(enough, H200)


def test_short_runs_of_dram_cost_time() -> None:
    long, short = predict(copy_like(run_bytes=256.0), H200), predict(copy_like(run_bytes=32.0), H200)
    assert 1.1 * long < short < 1.5 * long


def test_an_asynchronous_unit_needs_no_warps_to_overlap() -> None:
    few, many = (dataclasses.replace(matmul(stages=4), threads=threads, registers=64) for threads in (128, 256))
    fraction = predict(few, H200) / predict(many, H200)
    asynchronous = [dataclasses.replace(w, unit="wgmma") for w in (few, many)]
    assert fraction > 1.015
    assert predict(asynchronous[0], H200) < 1.01 * predict(asynchronous[1], H200)


def test_blocks_that_share_an_sm_do_not_help_an_asynchronous_unit() -> None:
    """In a single block, an asynchronous unit already overlaps with everything else.

    Two blocks on an SM, each with half of the stages, are not faster than a single block.
    """
    work = dataclasses.replace(matmul(stages=5, unit="wgmma"), barriers_per_iteration=0)
    one = dataclasses.replace(work, shared_bytes=160 * 1024)
    two = dataclasses.replace(work, shared_bytes=96 * 1024, stages=3)
    estimates = analyse([one, two], H200)
    assert estimates.occupancy.tolist() == [1, 2]
    assert estimates.step[1] >= 1.999 * estimates.step[0]


def test_memory_answers_in_seconds_not_in_cycles() -> None:
    """A GPU with twice the clock waits twice as many cycles for DRAM."""
    fast = dataclasses.replace(H200, clock_hz=2 * H200.clock_hz, tensor_clock_hz=2 * H200.tensor_clock_hz)
    lonely = dataclasses.replace(matmul(stages=2), blocks=1, flops=1e3, instructions=1e3, load_bytes=1e6)
    slow, quick = (predict(dataclasses.replace(lonely, dram_bytes=1e6), on) for on in (H200, fast))
    assert slow < 1.5 * quick


def test_clusters_fill_the_sms_of_measured_gpcs() -> None:
    h100 = device("h100")
    assert sum(h100.sms_of_gpcs) == h100.sm_count
    assert [h100.running_sms(cluster) for cluster in (1, 2, 4, 8)] == [132, 132, 124, 120]
    assert h100.sms_of_clusters(4) == 128  # four SMs stay empty with clusters of four blocks
    pcie = device("h100_pcie")  # the GPCs of this product were not measured
    assert pcie.running_sms(4) == pcie.sms_of_clusters(4)
    assert Device.from_json(h100.to_json()) == h100
    large = matmul(tile=(256, 128, 64), registers=160, stages=3)  # one block per SM
    four = dataclasses.replace(large, cluster=4, blocks=128)
    everywhere = dataclasses.replace(h100, sms_of_gpcs=())
    assert predict(four, h100) > 1.5 * predict(four, everywhere)  # only 31 of 32 clusters run at a time


def test_the_longest_block_decides_a_launch_of_one_wave() -> None:
    one_wave = dataclasses.replace(matmul(), blocks=100, dram_bytes=0.0)
    uneven = dataclasses.replace(one_wave, longest=2.0)
    assert 1.7 < predict(uneven, H200) / predict(one_wave, H200) < 2.1
    many = dataclasses.replace(matmul(), blocks=100 * 132)
    assert predict(dataclasses.replace(many, longest=2.0), H200) == predict(many, H200)


def test_warps_of_a_chain_of_products_wait_for_themselves() -> None:
    one_group = dataclasses.replace(matmul(unit="wgmma", tile=(64, 128, 64), warp=(16, 128), stages=4), special=4e4)
    chained = dataclasses.replace(one_group, chained=True)
    assert chained.threads == 128
    assert predict(chained, H200) > 1.1 * predict(one_group, H200)
    two = dataclasses.replace(chained, threads=256)
    assert predict(two, H200) < predict(chained, H200)  # one warpgroup multiplies while the other waits


def test_two_warps_per_sm_use_half_of_it() -> None:
    def busy_for(warps: int) -> float:
        work = dataclasses.replace(matmul(), threads=32 * warps, shared_bytes=H200.shared_per_block)
        return float(analyse([work], H200).math[0])

    assert busy_for(2) == 2 * busy_for(4) == 2 * busy_for(8)


def test_a_single_last_block_is_limited_by_its_load_latency() -> None:
    once = predict(matmul(), H200)
    few_threads = dataclasses.replace(matmul(), alone_bytes=64e3, alone_trips=1e4)
    assert predict(few_threads, H200) - once == pytest.approx(1e4 * 270 / H200.clock_hz)
