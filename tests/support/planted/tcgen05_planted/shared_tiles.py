"""Faults of blocks that share an output tile: split-K and stream-K."""

from __future__ import annotations

from tcgen05_planted.cases import WRONG, K, Planted

PLANTED = (
    Planted(
        "every split starts at the first k-tile", "splits", WRONG, "first = split * C::tiles_of_split;", "first = 0;"
    ),
    Planted(
        "the last split ends too early",
        "splits",
        WRONG,
        "C::tiles_k - first : C::tiles_of_split;",
        "C::tiles_k - first - 1 : C::tiles_of_split;",
    ),
    Planted(
        "every split finishes the tile",
        "splits",
        K.GLOBAL_RACE,
        "if (!leave_split(tile, partials, counters, shared, work)) return;",
        "leave_split(tile, partials, counters, shared, work);",
    ),
    Planted(
        "all splits store sums to one workspace slot",
        "splits",
        K.GLOBAL_RACE,
        "* C::split_k + work.split;",
        "* C::split_k;",
    ),
    Planted(
        "one split is not added",
        "splits",
        WRONG,
        "split < C::split_k; ++split, other_sums",
        "split + 1 < C::split_k; ++split, other_sums",
    ),
    Planted("one counter for all tiles", "splits", WRONG, "(counters + work.output_tile, shared", "(counters, shared"),
    Planted("every part starts at the first k-tile", "stream-K", WRONG, "work.first = part.first;", "work.first = 0;"),
    Planted(
        "both workers finish a tile", "stream-K", K.GLOBAL_RACE, "if (other_sums == nullptr) return;\n        }", "}"
    ),
    Planted(
        "the other part is not added", "stream-K", WRONG, "if constexpr (C::stream_k) add(x, other_sums, first);", ""
    ),
    Planted("the other part is not waited for", "stream-K", K.GLOBAL_RACE, "    two.wait_stored();\n", ""),
    Planted("the flag of a stored part is not set", "stream-K", K.DEADLOCK, "      two.tell_stored();\n", ""),
    Planted(
        "blocks also exchange sums of whole tiles",
        "stream-K",
        K.GLOBAL_RACE,
        "if (work.tiles < C::tiles_k) {",
        "if (work.tiles <= C::tiles_k) {",
    ),
)
