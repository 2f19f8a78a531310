"""The time model's counts of a tile program's work agree with the emulator's counts."""

from __future__ import annotations

import pytest
from cases import spread

from autosched.programs.loading import load_program, problem
from measurements.emulator import emulate
from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.devices import device
from search_spaces.programs.language import ir
from search_spaces.programs.planning.block_order import uneven
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.planning.distributions import distributions_of
from search_spaces.programs.planning.uniform import masking
from search_spaces.programs.schedules.counts import counts
from search_spaces.programs.schedules.work import work_of_values
from search_spaces.programs.template import template

A100 = device("a100")
CONVERTED = "../seeds/gemm_reduction.py"  # this program converts a layout explicitly
CASES = [
    ("gemm_relu.py", {"m": 256, "n": 256, "k": 128}),
    ("rope_matmul.py", {"m": 128, "n": 128, "k": 128, "half": 64}),
    ("attention.py:full_attention", {"h": 2, "g": 2, "s": 256, "d": 64}),
    (CONVERTED, {"m": 256, "n": 512, "k": 64}),
]


@pytest.mark.parametrize(("program_path", "sizes"), spread(CASES, 2))
def test_tiles_change_hands_and_bytes_move_as_counted(program_path: str, sizes: dict[str, int]) -> None:
    example = load_program(f"examples/programs/{program_path}")
    p, own, num_exchanges = problem(example, **sizes), template(example), 0
    for schedule in own.space(p, A100).sample(6, 3):
        if schedule.values.get("split_k", 1) != 1 or schedule.values.get("stream_k", 0):
            continue
        config = own.config(p, schedule, A100)
        run = emulate(own.kernel(p, schedule, A100), p.random_inputs(0))
        assert run.status == "ok", run.reason
        inferred, counted = choices_of(p).inference(config), counts(p, config, A100)
        exchanged = work_of_values(inferred, config, distributions_of(inferred, config)).exchanged(
            schedule.text("exchange")
        )
        words = sum(s.wavefronts for s in run.shared_sites if s.file == "autosched/tile/values.cuh")
        assert words == exchanged * counted.blocks, schedule
        moved = 32 * sum(s.sectors for s in run.global_sites)
        if program_path != CONVERTED:  # several of its warps load the same row, which is counted once
            assert moved == pytest.approx((counted.load_bytes + counted.store_bytes) * counted.blocks, rel=0.02)
        assert sum(s.wavefronts for s in run.shared_sites) <= counted.shared_wavefronts * counted.blocks
        num_exchanges += words > 0
    assert num_exchanges


def test_only_attention_has_a_chain_and_a_longest_block() -> None:
    def counted(program_path: str, sizes: dict[str, int]) -> list[tuple[CostCounts, float | None]]:
        """Return each schedule's counts, and its mean number of iterations (None if all blocks have equal numbers)."""
        example = load_program(f"examples/programs/{program_path}")
        p, own = problem(example, **sizes), template(example)
        configs = [own.config(p, s, A100) for s in own.space(p, A100).sample(8, 1)]
        blocks = [uneven(choices_of(p).inference(config)) for config in configs]
        return [(counts(p, c, A100), b.mean if b else None) for c, b in zip(configs, blocks, strict=True)]

    sizes = {"h": 2, "g": 2, "s": 1024, "d": 64}
    for work, _ in counted("attention.py:full_attention", sizes):
        assert work.chained
        assert work.longest == 1.0
    for work, mean in counted("attention.py:causal_attention", sizes):
        assert work.chained
        assert mean is not None
        assert work.iterations * work.longest > 1.5 * mean
    for work, _ in counted("gated_mlp.py", {"m": 256, "n": 256, "k": 256}):
        assert not work.chained and work.longest == 1.0


@pytest.mark.parametrize(
    ("name", "s", "needed"),
    [
        ("full_attention", 1024, 0.0),  # the mask is never needed
        ("full_attention", 1000, 1 / 32),  # needed in the last one of 32 iterations
        ("causal_attention", 1024, 2 / 17),  # needed in the last two of each block's 2 to 32 iterations
    ],
)
def test_masks_are_counted_where_tiles_need_them(name: str, s: int, needed: float) -> None:
    example = load_program(f"examples/programs/attention.py:{name}")
    p = problem(example, h=2, g=2, s=s, d=64)
    inference = choices_of(p).inference({"bm": 64, "bn": 32})
    masks = [o.result.id for o in inference.definitions.values() if isinstance(o, ir.Map) and o.function == "where"]
    shares = masking(inference)
    counted = [shares[id_] for id_ in masks if id_ in shares]
    assert counted == [pytest.approx(needed, rel=0.3)]
    conditions = {o.function for o in inference.definitions.values() if o.result.id in shares and isinstance(o, ir.Map)}
    assert conditions == {"where", "less"} | ({"and", "less_equal"} if name.startswith("causal") else set())


def test_sums_of_a_split_go_to_dram() -> None:
    example = load_program("examples/programs/gemm_relu.py")
    p, own = problem(example, m=256, n=256, k=1024), template(example)
    schedule = next(s for s in own.space(p, A100).sample(200, 1) if s.values["split_k"] == 2)
    split = counts(p, own.config(p, schedule, A100), A100)
    assert split.dram_bytes == p.min_bytes + 2 * 4 * 256 * 256  # two splits write sums, which are read from L2
    assert split.round_trips > 0
