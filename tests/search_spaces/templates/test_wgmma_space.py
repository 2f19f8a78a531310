"""Legal schedules of wgmma matmuls have the right properties. Other schedules are rejected with a reason."""

from __future__ import annotations

import dataclasses

import pytest

from cost_models.analytic import predict
from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.devices import device
from search_spaces.hardware.wgmma import alignment
from search_spaces.launches.tensor_map import TensorMap
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.parameters import Value
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.common.boxes import aligned_bytes
from search_spaces.templates.common.matmul_traffic import dram_bytes
from search_spaces.templates.wgmma_matmul.movement import access
from search_spaces.templates.wgmma_matmul.space import space
from search_spaces.templates.wgmma_matmul.template import WGMMA_MATMUL
from search_spaces.templates.wgmma_matmul.transposed import WGMMA_MATMUL_TRANSPOSED

H200 = device("h200")
PROBLEM = Matmul(4096, 4096, 4096, a="bf16")
GOOD = Schedule.from_json(
    "wgmma_matmul",
    {
        **{
            "tile_m": 128,
            "tile_n": 256,
            "tile_k": 64,
            "consumer_warpgroups": 2,
            "swizzle_a": 128,
            "swizzle_b": 128,
            "stages": 4,
        },
        **{"in_flight": 1, "producer_registers": 40, "min_blocks": 1, "split_k": 1, "raster": "grouped_8"},
        **{"store_buffers": 1, "tiles_per_block": 4, "ping_pong": 0, "stream_k": 0, "cluster_m": 2, "cluster_n": 1},
        **{"l2_promotion": 256, "l2_evict_last": "none"},
    },
)


@pytest.mark.parametrize(("order_a", "order_b"), [("row", "row"), ("row", "col"), ("col", "row"), ("col", "col")])
def test_every_legal_schedule_satisfies_the_invariants(order_a: str, order_b: str) -> None:
    problem = Matmul(1000, 520, 4104, a="f16", order_a=order_a, order_b=order_b)
    for schedule in space(problem, H200).sample(40, seed=3):
        config = WGMMA_MATMUL.config(problem, schedule, H200)
        consumers, producer_registers, consumer_registers = config.integers(
            "consumer_warpgroups", "producer_registers", "consumer_registers"
        )
        assert config.integer("threads") == 128 * consumers + (128 if producer_registers else 32)
        # setmaxnreg.inc waits forever if the block does not have the requested registers. Values are 24 to 256 in steps
        # of 8.
        if producer_registers:
            launched = min(65536 // config.integer("min_blocks") // (128 * (consumers + 1)) // 8 * 8, 248)
            assert producer_registers + consumers * consumer_registers <= (consumers + 1) * launched
            assert (
                producer_registers % 8 == consumer_registers % 8 == 0
                and 24 <= producer_registers < launched < consumer_registers <= 240
            )
            assert config.integer("accumulators") < consumer_registers
        # Every box starts at a multiple of the period of its swizzle.
        kernel = WGMMA_MATMUL.lower(problem, config, H200)
        maps = {a.name: a for a in kernel.arguments if isinstance(a, TensorMap)}
        assert {o.name for o in kernel.operands[:3]} == {"a", "b", "out"}
        by_tma = [side for side in "ab" if config.text(f"copy_{side}") == "tma"]
        assert set(maps) - {"out_map"} == {f"{side}_map" for side in by_tma}
        assert ("out_map" in maps) == (config.integer("store_buffers") > 0)
        # Each block of a cluster copies its share of a box's lines; a share consists of whole groups of 8 lines.
        cluster_m, cluster_n, tiles = config.integers("cluster_m", "cluster_n", "tiles_per_block")
        stream_k = config.integer("stream_k")
        assert kernel.cluster == (cluster_m * cluster_n, 1, 1) and cluster_m * cluster_n <= 4
        assert config.integer("tiles_m") % cluster_m == config.integer("tiles_n") % cluster_n == 0
        # All tiles are computed, and every block has a tile.
        blocks, launched = config.integers("blocks", "launched_blocks")
        assert (launched // (cluster_m * cluster_n) - 1) * tiles < blocks // (cluster_m * cluster_n) or stream_k
        assert launched * tiles >= blocks and kernel.grid == (launched, 1, 1)
        stage, start = config.integer("stage_bytes"), 0
        assert stage % 1024 == 0
        for side in "ab":
            if side not in by_tma:
                start += config.integer(f"stage_bytes_{side}")
                continue
            box = maps[f"{side}_map"].box
            share = cluster_n if side == "a" else cluster_m
            assert box[1] % 8 == 0
            box_bytes = 2 * box[0] * box[1] * box[2] * share
            assert box_bytes % alignment(config.integer(f"swizzle_{side}")) == 0
            assert start % alignment(config.integer(f"swizzle_{side}")) == 0
            assert config.integer(f"stage_bytes_{side}") % box_bytes == 0
            start += config.integer(f"stage_bytes_{side}")
        boxes = config.integer("store_bytes")
        if "out_map" in maps:
            box = maps["out_map"].box
            box_bytes = 2 * box[0] * box[1] * box[2]
            assert box[1] == 64 and boxes == consumers * config.integer("store_buffers") * box_bytes
            assert config.integer("tile_n") % box[0] == 0
        else:
            assert boxes == 0
        assert start == stage and stage * config.integer("stages") + boxes < config.integer("shared_bytes") <= 232448


@pytest.mark.parametrize(
    ("changes", "problem", "rule", "reason"),
    [
        (
            {"consumer_warpgroups": 3},
            PROBLEM,
            "consumer_warpgroups",
            "3 consumers",
        ),
        (
            {"tile_m": 64, "consumer_warpgroups": 1},
            PROBLEM,
            "setmaxnreg",
            "256 threads",
        ),
        ({"tile_n": 80}, PROBLEM, "layout_b", "this width does not divide the 80 elements"),
        ({"consumer_warpgroups": 1}, PROBLEM, "consumer_registers", "needs 282 registers per thread, and has"),
        ({"min_blocks": 2}, PROBLEM, "instruction_registers", "a wgmma of n = 256"),
        ({"tile_m": 192, "consumer_warpgroups": 3}, PROBLEM, "instruction_registers", "512 threads"),
        ({"stages": 8}, PROBLEM, "shared_memory", "bytes of shared memory"),
        ({"split_k": 16}, dataclasses.replace(PROBLEM, k=512), "split_k", "a split would be empty"),
        ({"swizzle_a": 32}, PROBLEM, "swizzle_a", "32 bytes: use 128 bytes, the widest swizzle"),
        ({"split_k": 2}, PROBLEM, "split_k_waves", "2 blocks or more"),
        ({"split_k": 2}, PROBLEM, "tiles_per_block", "tiles_per_block or split_k"),
        ({"tiles_per_block": 3}, PROBLEM, "tiles_per_block_waves", "132 blocks run at the same time"),
        ({"tiles_per_block": 3, "cluster_m": 4}, PROBLEM, "tiles_per_block_waves", "128 blocks run at the same time"),
        ({"ping_pong": 1, "tiles_per_block": 1}, PROBLEM, "ping_pong", "needs two consumers"),
        ({"stream_k": 1, "tiles_per_block": 1}, PROBLEM, "stream_k", "blocks that compute several"),
        ({"stream_k": 1, "cluster_m": 4}, PROBLEM, "stream_k", "128 tiles divided among 32 clusters of 4 blocks"),
        (
            {"stream_k": 1, "tiles_per_block": 3},
            PROBLEM,
            "stream_k",
            "at most 3 are allowed for each of the 66 clusters of 2",
        ),
        ({"stream_k": 1}, dataclasses.replace(PROBLEM, k=64), "stream_k_tiles", "one k-tile of 64"),
        (
            {"stream_k": 1, "tile_n": 128, "tiles_per_block": 8},
            dataclasses.replace(PROBLEM, n=4192),
            "tiles_per_block_waves",
            "idle for 0.0% of their time",
        ),
        ({"ping_pong": 1}, PROBLEM, "consumer_registers", "needs 282 registers"),
        ({"cluster_m": 4}, dataclasses.replace(PROBLEM, m=4096 + 128), "cluster_m", "does not divide the 33 tiles"),
        ({"cluster_m": 4, "cluster_n": 2}, PROBLEM, "cluster_size", "more than 4"),
        ({"tile_n": 24, "cluster_m": 2}, dataclasses.replace(PROBLEM, order_b="col"), "multicast_b", "b has 24 lines"),
        ({"store_buffers": 4}, PROBLEM, "shared_memory", "bytes of shared memory"),
        ({"tile_n": 192, "store_buffers": 2}, PROBLEM, "store_buffers", "do not divide the 3 boxes"),
        ({}, dataclasses.replace(PROBLEM, n=4097, order_b="col"), "store_buffers", "n = 4097 a row has 8194 bytes"),
        ({"tile_n": 48}, PROBLEM, "narrow", "takes longer than multiplying"),
        ({"tile_n": 248}, dataclasses.replace(PROBLEM, order_b="col"), "columns", "only multiples of 16 are tried"),
        ({"stages": 2, "tile_n": 128}, PROBLEM, "few_stages", "2 stages"),
        ({"ping_pong": 1, "in_flight": 0}, PROBLEM, "ping_pong_in_flight", "would be idle"),
        ({"swizzle_a": 64}, PROBLEM, "swizzle_a", "64 bytes: use 128 bytes, the widest swizzle"),
        (
            {"l2_evict_last": "a"},
            dataclasses.replace(PROBLEM, k=512),
            "l2_evict_last",
            "L2 has room for both a and b",
        ),
    ],
)
def test_other_schedules_are_rejected_with_the_reason(
    changes: dict[str, int], problem: Matmul, rule: str, reason: str
) -> None:
    assert not list(space(PROBLEM, H200).explain(GOOD))
    reasons = {v.rule: v.reason for v in space(problem, H200).explain(GOOD.replace(**changes))}
    assert rule in reasons and reason in reasons[rule], reasons


@pytest.mark.parametrize(
    ("problem", "name", "reason"),
    [
        (PROBLEM, "a100", "needs sm_90a, but a100 is sm_80"),
        (PROBLEM, "rtx4090", "needs sm_90a, but rtx4090 is sm_89"),
        (Matmul(64, 64, 64, a="f32"), "h200", "wgmma reads tf32 along k only: store b with order_b = col"),
        (
            Matmul(64, 64, 64, a="e4m3", order_a="col"),
            "h200",
            "wgmma reads e4m3 along k only: store a with order_a = row",
        ),
        (Matmul(64, 64, 64, a="f32", order_b="col", precision="ieee"), "h200", "multiplies f32 as tf32"),
        (Matmul(64, 64, 64, reduction="row_sum"), "h200", "no second output, which row_sum needs"),
    ],
)
def test_unsupported_problems_and_devices_are_rejected(problem: Matmul, name: str, reason: str) -> None:
    unsupported = WGMMA_MATMUL.why_not(problem, device(name))
    assert unsupported is not None and reason in unsupported
    assert WGMMA_MATMUL.why_not(Matmul(63, 63, 61, order_b="col"), H200) is None


def test_words_of_a_register_operand_may_have_any_order() -> None:
    """In the transposed template, operands are exchanged, and the register operand is b."""
    for order in ("row", "col"):
        assert WGMMA_MATMUL.why_not(Matmul(64, 64, 64, a="f32", order_a=order, order_b="col"), H200) is None
        assert WGMMA_MATMUL_TRANSPOSED.why_not(Matmul(64, 64, 64, a="f32", order_b=order), H200) is None
    refused = WGMMA_MATMUL_TRANSPOSED.why_not(Matmul(64, 64, 64, a="f32", order_a="col"), H200)
    assert refused is not None and "store a with order_a = row" in refused


@pytest.mark.parametrize(
    ("problem", "a", "b"),
    [
        (Matmul(64, 64, 72, a="i8"), 8, 8),
        (Matmul(64, 64, 99), 2, 0),
        (Matmul(64, 62, 64), 0, 4),
        (Matmul(60, 64, 64, order_a="col"), 8, 0),
        (Matmul(64, 64, 99, order_a="col", order_b="col"), 0, 2),
        (Matmul(64, 64, 99, a="e4m3", order_b="col"), 1, 1),
        (Matmul(64, 64, 99, a="f32", order_b="col"), 4, 4),
    ],
)
def test_threads_copy_operands_that_tma_cannot(problem: Matmul, a: int, b: int) -> None:
    """``a`` and ``b`` are line alignments in bytes. TMA needs 16, and only operands that TMA copies have a tensor map.

    If lines are aligned to less than a word, each line of a stage has an additional padding word.
    """
    cannot = {side: bytes_ for side, bytes_ in (("a", a), ("b", b)) if bytes_}
    assert (aligned_bytes(problem, "a"), aligned_bytes(problem, "b")) == (a or 16, b or 16)
    by_choice = set()
    for schedule in space(problem, H200).sample(20, seed=1):
        config = WGMMA_MATMUL.config(problem, schedule, H200)
        a, b = access(problem, config, "a"), access(problem, config, "b")
        assert {"a": a, "b": b} | cannot == {"a": a, "b": b}
        by_choice |= {side for side, bytes_ in (("a", a), ("b", b)) if bytes_ == 16}
        kernel = WGMMA_MATMUL.lower(problem, config, H200)
        names = {argument.name for argument in kernel.arguments}
        assert {"a" if a else "a_map", "b" if b else "b_map"} <= names
        assert f"access_a = {a};" in kernel.source and f"access_b = {b};" in kernel.source
        lines = [
            config.integer(f"stage_bytes_{side}") // (config.integer(f"swizzle_{side}") or 16)
            for side, bytes_ in (("a", a), ("b", b))
            if 0 < bytes_ < 4
        ]
        assert config.integer("ends_bytes") == 4 * sum(lines)
        assert config.integer("cluster_n") == 1 or not a
        assert config.integer("cluster_m") == 1 or not b
        registers = 64 if min(cannot.values()) < 4 else 48
        assert config.integer("producer_registers") in ((0, registers) if a or b else (0, 24, 40))
    assert by_choice == {"a", "b"} - set(cannot), "with few blocks, threads may copy operands that TMA could"


@pytest.mark.parametrize(
    ("changes", "problem", "rule", "reason"),
    [
        (
            {"producer_registers": 24},
            {"k": 4098},
            "copying_registers",
            "24 registers are too few for threads that copy",
        ),
        ({}, {"k": 4097}, "copying_registers", "use 64"),
        ({}, {"n": 4098}, "copied_b", "cannot share b, which threads copy"),
        ({"cluster_m": 1, "cluster_n": 2}, {"k": 4100}, "copied_a", "cluster along n cannot share a"),
        ({"copy_b": "cp.async", "producer_registers": 48}, {}, "copied_b", "cannot share b, which threads copy"),
        ({"copy_a": "cp.async", "producer_registers": 40}, {}, "copying_registers", "use 48"),
        ({"producer_registers": 48}, {}, "registers_to_copy", "TMA loads both operands"),
        ({"copy_a": "cp.async", "producer_registers": 48}, {}, "copy_a", "keep all 132 SMs of h200 busy"),
        ({}, {"k": 4098, "n": 4098}, "l2_promotion", "TMA loads neither operand"),
        ({"l2_evict_last": "a"}, {"k": 4098, "n": 4098}, "l2_evict_last_by_tma", "TMA loads neither operand"),
    ],
)
def test_rules_of_thread_copies(changes: dict[str, Value], problem: dict[str, int], rule: str, reason: str) -> None:
    odd = dataclasses.replace(PROBLEM, **problem)
    schedule = Schedule.from_json("wgmma_matmul", {**GOOD.to_json(), **changes})
    reasons = {v.rule: v.reason for v in space(odd, H200).explain(schedule)}
    assert rule in reasons and reason in reasons[rule], reasons


def test_the_model_agrees_with_the_rules_on_thread_copies() -> None:
    """If blocks keep all SMs busy, the model predicts no gain from copying with threads instead of TMA."""
    problem = Matmul(2048, 2048, 2048, a="f16", order_b="col")
    legal = space(problem, H200).valid
    compared = 0
    for schedule in space(problem, H200).sample(24, seed=6):
        for side in ("a", "b"):
            if schedule.integer("producer_registers") or schedule.values[f"copy_{side}"] != "tma":
                continue
            changed = schedule.replace(**{f"copy_{side}": "cp.async"})
            if list(legal.explain(changed)):
                continue
            compared += 1
            assert predict(_counted(problem, changed), H200) >= predict(_counted(problem, schedule), H200)
    assert compared > 4


def test_loading_a_through_registers_costs_more_than_shared_memory() -> None:
    """Searches load ``a`` into registers only if it is 32-bit and stored along m.

    wgmma cannot read such an array from shared memory.
    """
    problem, compared = Matmul(2048, 2048, 2048, a="bf16", order_b="col"), 0
    for schedule in space(problem, H200).sample(24, seed=7):
        assert schedule.values["a_operand_source"] == "shared"
        changed = schedule.replace(a_operand_source="registers")
        broken = {violation.rule for violation in space(problem, H200).explain(changed)}
        assert broken >= {"a_operand_source_shared"} | (
            {"a_operand_source"} if schedule.integer("in_flight") else set()
        )
        if broken == {"a_operand_source_shared"}:
            compared += 1
            assert predict(_counted(problem, changed), H200) >= predict(_counted(problem, schedule), H200)
    assert compared > 2
    words = Matmul(2048, 2048, 2048, a="f32", order_a="col", order_b="col")
    for schedule in space(words, H200).sample(8, seed=7):
        assert (schedule.values["a_operand_source"], schedule.values["in_flight"]) == ("registers", 0)


def _counted(problem: Matmul, schedule: Schedule) -> CostCounts:
    assert WGMMA_MATMUL.counts is not None
    return WGMMA_MATMUL.counts(problem, WGMMA_MATMUL.config(problem, schedule, H200), H200)


def test_copies_by_threads_cost_more_than_tma() -> None:
    """Costs grow as the alignment of lines falls. One copying warp takes longer than four.

    Predicted times grow likewise. All thread copies use the config of k = 4097, which has enough registers for
    shifting.
    """

    def of(k: int, **changes: int) -> CostCounts:
        problem = Matmul(4096, 4096, k, order_b="col")
        schedule = GOOD.replace(cluster_m=1, **{"stages": 3, "producer_registers": 64, **changes})
        config = WGMMA_MATMUL.config(dataclasses.replace(problem, k=4097), schedule, H200)
        assert WGMMA_MATMUL.counts is not None
        return WGMMA_MATMUL.counts(problem, config, H200)

    aligned = Matmul(4096, 4096, 4096, order_b="col")
    same = GOOD.replace(cluster_m=1, stages=3).to_json()
    by_threads = {**same, "producer_registers": 48, "copy_a": "cp.async", "copy_b": "cp.async"}
    tma, sixteen = (_counted(aligned, Schedule.from_json("wgmma_matmul", s)) for s in (same, by_threads))
    eight, four, two = (of(k) for k in (4100, 4098, 4097))
    assert tma.instructions < sixteen.instructions < eight.instructions < four.instructions < two.instructions
    assert tma.shared_wavefronts < eight.shared_wavefronts == four.shared_wavefronts < two.shared_wavefronts
    assert tma.load_bytes == sixteen.load_bytes < eight.load_bytes < four.load_bytes < two.load_bytes
    assert (tma.stages, two.stages) == (3, 2)
    assert of(4097, producer_registers=0).instructions > two.instructions
    assert predict(tma, H200) < predict(sixteen, H200) < predict(eight, H200) < predict(four, H200) < predict(two, H200)


def test_counts_of_clusters_persistent_blocks_and_ping_pong() -> None:
    def of(**changes: int) -> CostCounts:
        config = WGMMA_MATMUL.config(PROBLEM, GOOD.replace(**{"tile_n": 128, **changes}), H200)
        assert WGMMA_MATMUL.counts is not None
        return WGMMA_MATMUL.counts(PROBLEM, config, H200)

    alone = of(cluster_m=1, tiles_per_block=1)
    assert alone.multicast_bytes == 0 and alone.blocks == 1024
    for m, n, part in ((2, 1, 0.75), (1, 2, 0.75), (2, 2, 0.5), (1, 4, 0.625)):
        shared = of(cluster_m=m, cluster_n=n, tiles_per_block=1)
        # With clusters, blocks request fewer bytes from L2, but the same number of bytes arrives in shared memory.
        assert shared.load_bytes + shared.multicast_bytes == alone.load_bytes
        assert shared.load_bytes == part * alone.load_bytes
    several = of(cluster_m=1, tiles_per_block=8)
    assert several.blocks == 128 and several.flops == 8 * alone.flops and several.iterations == 8 * alone.iterations
    # TMA stores a tile while it loads the next one, so only the last store adds time. Stores from registers do not
    # overlap with multiplication.
    assert several.store_bytes == alone.store_bytes
    assert several.load_bytes == 8 * alone.load_bytes + 7 * alone.store_bytes
    assert (
        of(cluster_m=1, tiles_per_block=8, store_buffers=0).store_bytes
        == 8 * of(cluster_m=1, tiles_per_block=1, store_buffers=0).store_bytes
    )
    assert several.drains == 8 and of(cluster_m=1, tiles_per_block=8, ping_pong=1, tile_n=64).drains == 1
    assert predict(several, H200) < predict(alone, H200)


def test_stream_k_distributes_a_partial_wave_after_whole_ones() -> None:
    """At most two clusters share a tile in sampled schedules, as each computes no fewer k-tiles than a tile has.

    Each pair of neighbouring clusters has memory for the sums of a tile, and two counters per warpgroup.
    """
    problem, seen = Matmul(2056, 5000, 1000, a="bf16", batch=2), 0
    for schedule in space(problem, H200).sample(150, seed=6):
        if not schedule.integer("stream_k"):
            continue
        seen += 1
        config = WGMMA_MATMUL.config(problem, schedule, H200)
        cluster = config.integer("cluster_m") * config.integer("cluster_n")
        workers, tiles = config.integer("launched_blocks") // cluster, config.integer("blocks") // cluster
        assert workers == H200.sms_of_clusters(cluster) // cluster * config.integer("min_blocks")
        assert workers < tiles <= workers * config.integer("tiles_per_block") and tiles % workers
        kernel = WGMMA_MATMUL.lower(problem, config, H200)
        partials, counters = (next(o for o in kernel.operands if o.name == name) for name in ("partials", "counters"))
        tile = config.integer("tile_m") * config.integer("tile_n")
        assert partials.size == (workers - 1) * cluster * tile and counters.zeroed
        sharing = 1 if config.integer("ping_pong") else config.integer("consumer_warpgroups")
        assert counters.size == (workers - 1) * cluster * sharing * 2
    assert seen > 20


def test_stream_k_is_faster_for_a_small_last_wave() -> None:
    """With slightly more than two waves of tiles, a third wave costs more than exchanging sums, unless k is short.

    With stream-K, all blocks compute equal shares. If blocks are out of step, panels that L2 no longer holds are read
    again.
    """
    assert WGMMA_MATMUL.counts is not None
    for n, k, pays in ((256 * 9, 4096, True), (256 * 16, 512, False)):
        problem = dataclasses.replace(PROBLEM, n=n, k=k)
        at = GOOD.replace(tiles_per_block=-(-32 * n // 256 // 132))
        plain, streamed = (
            WGMMA_MATMUL.counts(problem, WGMMA_MATMUL.config(problem, at.replace(stream_k=s), H200), H200)
            for s in (0, 1)
        )
        assert streamed.blocks == 132 and streamed.flops * 132 == pytest.approx(2.0 * 4096 * n * k)
        assert streamed.round_trips > plain.round_trips and streamed.store_bytes > plain.store_bytes
        assert (predict(streamed, H200) < predict(plain, H200)) == pays
    large = Matmul(16384, 16384, 16384, a="bf16")
    config = WGMMA_MATMUL.config(large, GOOD.replace(tiles_per_block=64), H200)
    assert dram_bytes(large, config, H200, out_of_step=0.1) > dram_bytes(large, config, H200)


def test_a_proxy_is_accepted_by_its_template() -> None:
    for order_a, order_b in (("row", "row"), ("col", "col")):
        problem = Matmul(4104, 4104, 8200, a="f16", order_a=order_a, order_b=order_b, batch=3)
        for schedule in space(problem, H200).sample(20, seed=5):
            small = WGMMA_MATMUL.proxy(problem, schedule) if WGMMA_MATMUL.proxy else problem
            assert WGMMA_MATMUL.why_not(small, H200) is None
            WGMMA_MATMUL.kernel(small, schedule, H200)
