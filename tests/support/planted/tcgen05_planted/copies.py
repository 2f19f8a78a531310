"""Faults of shared-memory rings, of barriers and of the copies that fill stages."""

from __future__ import annotations

from tcgen05_planted.cases import WRONG, K, Planted

PLANTED = (
    # Rings and barriers.
    Planted(
        "a stage expects two arrivals",
        "plain",
        K.BARRIER_NOT_REACHED,
        "ptx::mbarrier_init(stage.full(), 1);",
        "ptx::mbarrier_init(stage.full(), 2);",
    ),
    Planted(
        "sums are released after only one warp has read them",
        "several tiles",
        K.BARRIER_NOT_REACHED,
        "ptx::mbarrier_init(sums.empty(), finishing_warps * pair);",
        "ptx::mbarrier_init(sums.empty(), 1);",
    ),
    Planted(
        "sums are released after half of the pair's warps have read them",
        "several tiles of a pair",
        K.BARRIER_NOT_REACHED,
        "ptx::mbarrier_init(sums.empty(), finishing_warps * pair);",
        "ptx::mbarrier_init(sums.empty(), finishing_warps);",
    ),
    Planted(
        "no fence that makes barriers visible to the other block",
        "a pair",
        K.MISSING_MBARRIER_FENCE,
        "    ptx::fence_mbarrier_init();\n",
        "",
    ),
    Planted(
        "two rings use the same barriers",
        "plain",
        K.MBARRIER_MISUSE,
        "sums_barriers_at = barriers_at + 16 * C::stages",
        "sums_barriers_at = barriers_at",
    ),
    Planted(
        "the address of the sums overwrites a barrier",
        "plain",
        K.MBARRIER_MISUSE,
        "address_at = sums_barriers_at + 16 * C::sum_buffers",
        "address_at = sums_barriers_at",
    ),
    Planted(
        "stages that overlap",
        "plain",
        K.SHARED_RACE,
        "this->index * C::stage_bytes",
        "this->index * (C::stage_bytes - 2048)",
    ),
    Planted("the parity never changes", "plain", K.ASYNC_READ_BEFORE_WAIT, "parity ^= 1u;\n", "parity = 1u;\n"),
    Planted(
        "each block uses its own barriers",
        "a pair",
        K.BARRIER_NOT_REACHED,
        "pair == 1 ? address : address & 0xfeffffffu",
        "address",
    ),
    Planted(
        "all blocks compute the first matrix",
        "batch",
        K.GLOBAL_RACE,
        "batch = id / (of_matrix * C::split_k);",
        "batch = 0;",
    ),
    Planted(
        "both blocks compute the same rows",
        "a pair",
        K.GLOBAL_RACE,
        "tile.m * C::tile_m + rank() * rows",
        "tile.m * C::tile_m",
    ),
    # The copies.
    Planted(
        "a stage is filled while it is multiplied",
        "plain",
        K.SHARED_RACE,
        "Plan::wait(stage.empty(), stage.parity ^ 1u);",
        ";",
    ),
    Planted(
        "the first round waits",
        "plain",
        K.BARRIER_NOT_REACHED,
        "Plan::wait(stage.empty(), stage.parity ^ 1u);",
        "Plan::wait(stage.empty(), stage.parity);",
    ),
    Planted(
        "the barrier expects only half of the bytes",
        "a pair",
        K.ASYNC_READ_BEFORE_WAIT,
        "pair * (Plan::scales_at + Plan::scale_bytes)",
        "C::stage_bytes",
    ),
    Planted(
        "the barrier expects too many bytes",
        "plain",
        K.BARRIER_NOT_REACHED,
        "pair * (Plan::scales_at + Plan::scale_bytes)",
        "pair * C::stage_bytes + 16",
    ),
    Planted(
        "both blocks load the same part of b", "a pair", WRONG, "work.n0 + Plan::rank() * (C::tile_n / pair)", "work.n0"
    ),
    Planted(
        "b is a k-tile ahead",
        "plain",
        WRONG,
        "A::bytes, column, t * C::tile_k",
        "A::bytes, column, (t + 1) * C::tile_k",
    ),
    Planted(
        "b is copied onto a", "plain", K.SHARED_RACE, "load<B>(b, stage.tile() + A::bytes,", "load<B>(b, stage.tile(),"
    ),
    Planted(
        "coordinates of b swapped",
        "lines of b along n",
        WRONG,
        "const int x = (Operand::major ? mn0 : k0) + along, y = Operand::major ? k0 : mn0;",
        "const int x = (Operand::major ? k0 : mn0) + along, y = Operand::major ? mn0 : k0;",
    ),
)
