"""Attention whose long tiles are shared by two blocks. The block that finishes last keeps its sums in registers."""

from __future__ import annotations

import pytest
from edited_kernel import edited_kernel
from tile_operator_checks import kernel_of, outcome, sampled, sampled_with

from search_spaces.hardware.devices import device
from search_spaces.spaces.schedule import Schedule
from search_spaces.tile_operators.attention import Attention
from search_spaces.tile_operators.tile_template import tile_template

SMALL = Attention(batch=1, heads=2, kv_heads=1, queries=200, head_size=32, causal=1, log_sum_exp=1, dtype="f16")
SHARED, SPLIT = "autosched/common/stream_k.cuh", "autosched/tile/split.cuh"


def of_two(gpu: str, tiles: str, **values: str) -> Schedule:
    """Return a schedule in which two blocks share each tile (``tiles`` is "all"), or only each long tile ("long")."""
    drawn = sampled_with(SMALL, gpu, 1000, **values) if values else sampled(SMALL, gpu, 1000)
    chosen = {"parts": 2, "split_launches": 1, "split_tiles": tiles}
    return next(s for s in drawn if chosen.items() <= s.values.items())


@pytest.mark.parametrize(
    ("gpu", "tiles", "values"),
    [
        ("a100", "long", {}),
        ("h100", "all", {"intrinsic": "wgmma_m64k16_f16"}),
        ("b200", "long", {"intrinsic": "tcgen05_m64k16_f16"}),
    ],
)
def test_two_blocks_share_a_tile(gpu: str, tiles: str, values: dict[str, str]) -> None:
    assert outcome(SMALL, kernel_of(SMALL, gpu, of_two(gpu, tiles, **values))) == "ok"


FAULTS = {
    "a part is read before it is stored": (SHARED, "      while (ptx::ld_acquire(stored) == 0) {\n      }\n", ""),
    "no thread signals that a part is stored": (SHARED, "      ptx::atomic_add(stored, 1u);\n", ""),
    "a part is signalled before all threads have stored": (
        SHARED, "    ptx::barrier_sync(barrier, Threads);  // all threads have stored their sums\n", ""),
    "both blocks are first": (SHARED, "word[0] == 0;", "word[0] < 2;"),
    "no block is first": (SHARED, "word[0] == 0;", "word[0] > 2;"),
    "the counter of tickets is not reset": (SHARED, "      ptx::atomic_add(tickets, -2u);\n", ""),
    "the loaded part is lost": (SPLIT, "x[r] = own == 0 ? x[r] : loaded;", "x[r] = x[r];"),
    "the own part is lost": (SPLIT, "other[r] = own == 0 ? loaded : x[r];", "other[r] = loaded;"),
    "parts of all tiles are in one place": ("", "static_cast<long long>(tile_place)", "static_cast<long long>(0)"),
    "all tiles have the same flags": ("", "split_counters + 2 * tile_place", "split_counters + 0 * tile_place"),
}  # fmt: skip
QUICK = ("a part is read before it is stored", "no thread signals that a part is stored", "the loaded part is lost")


def is_reported(fault: str) -> bool:
    kernel = kernel_of(SMALL, "a100", of_two("a100", "all"))
    return outcome(SMALL, edited_kernel(kernel, *FAULTS[fault])) != "ok"


@pytest.mark.parametrize("fault", QUICK)
def test_some_faults_are_reported(fault: str) -> None:
    assert is_reported(fault)


@pytest.mark.nightly
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_reported(fault: str) -> None:
    assert is_reported(fault)


def test_one_of_two_blocks_stores_its_part() -> None:
    problem, chip = Attention(1, 8, 8, 2048, causal=1), device("h100")
    template = tile_template(Attention)
    two, four = (
        next(
            s
            for s in sampled(problem, "h100", 3000)
            if {"parts": parts, "split_launches": 1, "split_tiles": "all"}.items() <= s.values.items()
        )
        for parts in (2, 4)
    )
    sizes = [
        {o.name: o.shape for o in template.kernel(problem, s, chip).arguments if o.name.startswith("split_")}
        for s in (two, four)
    ]
    assert [len(arrays["split_partials"]) for arrays in sizes] == [3, 4]
    assert sizes[0]["split_counters"][1] == 2
