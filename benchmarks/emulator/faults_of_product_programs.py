"""Faults to plant in tile programs with matrix products: decode attention, and cross entropy of a linear layer.

The faults were chosen on 2026-11-29, and committed before they were verified for the first time.
"""

# ruff: noqa: E501 - an edit is a line of a table
from __future__ import annotations

from dataclasses import replace

from benchmarks.emulator.faults_of_row_programs import BEFORE_PARTS, BEHIND_PARTS, GRID, LAST_SUM
from benchmarks.emulator.planted_fault import CUDA, PROGRAM, Fault
from search_spaces.tile_operators.decode_attention import DecodeAttention
from search_spaces.tile_operators.linear_cross_entropy import LinearCrossEntropy, LinearCrossEntropyDlogits

DECODE = DecodeAttention(batch=8, heads=32, kv_heads=8, pages=512, entries=64)
PAGES = replace(DECODE, pages=128, entries=16, page=64)
QUERIES, NARROW = replace(DECODE, queries=4), replace(PAGES, cache="e4m3")
LINEAR, DLOGITS = (
    LinearCrossEntropy(rows=1000, columns=3000, k=512),
    LinearCrossEntropyDlogits(rows=1000, columns=3000, k=512),
)
RING, BOXES, LAST = "tile/ring.cuh", "tile/box_ring.cuh", "common/last_block.cuh"
WAIT, EARLY = (
    "cp_async_wait_group<(C::stages >= 2 ? C::stages - 2 : 0)>",
    "cp_async_wait_group<(C::stages >= 2 ? C::stages - 1 : 0)>",
)
TURN = "    ptx::barrier_sync();\n    const bool more = whole || left > ahead;"
FENCED = "    ptx::fence_gpu();\n    const unsigned arrived = ptx::atomic_add(counter, 1u);\n    ptx::fence_gpu();"
SPLIT = {"products_split_k": (2, 3, 4), "products_stream_k": 0}

OF_PRODUCT_PROGRAMS: tuple[Fault, ...] = (
    # Decode attention
    Fault("scores begin at a maximum of zero", "values", "decode_attention", DECODE, {}, PROGRAM,
          "p.state(p.full((1, columns), -np.inf))", "p.state(p.full((1, columns), 0.0))", device="a100"),
    Fault("scores read maxima that are not stored", "barriers", "decode_attention", DECODE, {"subgroups_m_1": (2, 4)}, CUDA,
          BEHIND_PARTS, "", device="a100"),
    Fault("weights are read before their exchange", "barriers", "decode_attention", DECODE, {"subgroups_m_1": (2, 4)}, CUDA,
          r"ptx::barrier_sync\(\);(?=\s*#line[^\n]*\s*float v\d+\[\d+\];)", "", device="a100"),
    Fault("keys are read a copy early", "orders", "decode_attention", DECODE, {"stages": (3, 4)}, RING, WAIT, EARLY, device="a100"),
    Fault("keys of other threads are read without a barrier", "barriers", "decode_attention", PAGES, {"stages": (3, 4)}, RING,
          TURN, TURN.replace("    ptx::barrier_sync();\n", ""), device="a100"),
    Fault("parts of the cache overlap", "indices", "decode_attention", DECODE, {"parts": (4, 8)}, CUDA,
          r"split \* all_turns / (\d+)", r"split * (all_turns / \1)", device="a100"),
    Fault("the last positions of a sequence are left out", "bounds", "decode_attention", DECODE, {}, CUDA,
          r"\(scalar_1 \+ \d+\) / (\d+)", r"scalar_1 / \1", device="a100"),
    Fault("a tile is whole if its first position is", "bounds", "decode_attention", DECODE, {}, CUDA,
          r"if \(!\(\(\((turn_\d+) \* (\d+)\) \+ \d+\) < scalar_1\)\)", r"if (!((\1 * \2) < scalar_1))", device="a100"),
    Fault("a given scale is ignored", "values", "decode_attention", replace(DECODE, scale=0.25), {}, PROGRAM,
          "exponents(p, o.scale or d**-0.5)", "exponents(p, d**-0.5)", device="a100"),
    Fault("small pages are those of the first group", "indices", "decode_attention", DECODE, {}, PROGRAM,
          "line, first = number * page + inside, group * d", "line, first = number * page + inside, 0", device="a100"),
    Fault("pages are one head apart", "indices", "decode_attention", replace(DECODE, order="heads"), {}, PROGRAM,
          "(number * g + p.rows(group, 1)) * page", "(number + p.rows(group, 1)) * page", device="a100"),
    Fault("a page after the cache is read", "bounds", "decode_attention", PAGES, {}, PROGRAM,
          "high=k.shape[0] - 1)", "high=k.shape[0])", device="a100"),
    Fault("parts are relative to the first one's maximum", "values", "decode_attention", DECODE, {"parts": (4, 8)}, PROGRAM,
          "peak = p.maximum(one[0], other[0])", "peak = one[0]", device="a100"),
    Fault("a query's position is that of its head", "indices", "decode_attention", QUERIES, {}, PROGRAM,
          "own = p.columns(0, columns) // part +", "own = p.columns(0, columns) % part +", device="a100"),
    Fault("queries of sequences overlap in out", "indices", "decode_attention", QUERIES, {}, PROGRAM,
          "out[sequence * o.queries + n]", "out[sequence + n]", device="a100"),
    Fault("all queries store the first one's result", "indices", "decode_attention", QUERIES, {}, PROGRAM,
          "result[:, n * part : (n + 1) * part]", "result[:, 0:part]", device="a100"),
    Fault("values have the scale of keys", "scales", "decode_attention", NARROW, {}, PROGRAM,
          "result = result * of_values", "result = result * of_keys", device="h200"),
    Fault("the last part of the cache is left out", "bounds", "decode_attention", DECODE, {"parts": (4, 8), "split_launches": 2}, CUDA,
          r"(turn_\d+) < (\d+); \+\+\1\) \{(?=\s*#line[^\n]*\s*tile::get_part)", r"\1 < \2 - 1; ++\1) {", device="a100"),
    Fault("parts are combined without a fence", "orders", "decode_attention", DECODE, {"parts": (4, 8), "split_launches": 1}, LAST,
          FENCED, "    const unsigned arrived = ptx::atomic_add(counter, 1u);", device="a100"),
    Fault("a length may exceed the table", "bounds", "decode_attention", DECODE, {}, PROGRAM,
          "high=entries * page)", "high=2 * entries * page)", device="a100"),
    # A linear layer and cross entropy
    Fault("tiles of logits read maxima that are not stored", "barriers", "linear_cross_entropy", LINEAR, {"products_subgroups_n": (2, 4, 8)}, CUDA,
          BEHIND_PARTS, "", device="a100"),
    Fault("sums of a tile overwrite maxima that are read", "barriers", "linear_cross_entropy", LINEAR, {"products_subgroups_n": (2, 4, 8)}, CUDA,
          BEFORE_PARTS, "", device="a100"),
    Fault("the second warp's exponentials are left out", "values", "linear_cross_entropy", LINEAR, {"products_subgroups_n": (2, 4, 8)}, CUDA,
          LAST_SUM, "", device="a100"),
    Fault("exponentials of two lanes are left out", "values", "linear_cross_entropy", LINEAR, {}, CUDA,
          r"\b(v\d+\[r\]) = tile::add\(\1, tile::exchanged\(\1, 2\)\);", "", device="a100"),
    Fault("columns of w are read a copy early", "orders", "linear_cross_entropy", LINEAR, {"products_stages": (3, 4), "products_fragment_buffers": 1, "products_split_k": 1}, RING,
          WAIT, EARLY, device="a100"),
    Fault("a stage of x and w is filled while it is read", "barriers", "linear_cross_entropy", LINEAR, {"products_stages": (3, 4), "products_fragment_buffers": 1, "products_split_k": 1}, RING,
          TURN, TURN.replace("    ptx::barrier_sync();\n", ""), device="a100"),
    Fault("the last part of k is left out", "bounds", "linear_cross_entropy", LINEAR, SPLIT, CUDA,
          r"tile::add_parts<(\d+),", r"tile::add_parts<\1 - 1,", device="a100"),
    Fault("parts of logits are stored in one place", "indices", "linear_cross_entropy", LINEAR, SPLIT, CUDA,
          r"parts \+ split \* (\d+)", r"parts + 0 * split * \1", device="a100"),
    Fault("parts of logits are added without a fence", "orders", "linear_cross_entropy", LINEAR, SPLIT, LAST,
          FENCED, "    const unsigned arrived = ptx::atomic_add(counter, 1u);", device="a100"),
    Fault("a label of as many as w has rows counts", "bounds", "linear_cross_entropy", LINEAR, {}, PROGRAM,
          'p.full((rows, 1), o.columns, "i32")', 'p.full((rows, 1), o.columns + 1, "i32")', device="a100"),
    Fault("the first row of w is no label", "bounds", "linear_cross_entropy", LINEAR, {}, PROGRAM,
          'p.full((rows, 1), -1, "i32")', 'p.full((rows, 1), 0, "i32")', device="a100"),
    Fault("losses to the base 2", "values", "linear_cross_entropy", LINEAR, {}, PROGRAM,
          "p.log2(total) * (1.0 / LOG2_E)", "p.log2(total)", device="a100"),
    Fault("losses without their maximum", "values", "linear_cross_entropy", LINEAR, {}, PROGRAM,
          " + p.where(top == -inf, 0.0, top)", "", device="a100"),
    Fault("tiles are combined from a maximum of zero", "values", "linear_cross_entropy", LINEAR, {}, PROGRAM,
          "p.state(p.full((rows, 1), -inf))", "p.state(p.full((rows, 1), 0.0))", device="a100"),
    Fault("labels' logits and sums are exchanged", "indices", "linear_cross_entropy", LINEAR, {}, PROGRAM,
          'for n in ("total", "own"))', 'for n in ("own", "total"))', device="a100"),
    Fault("all rows are the first of x", "indices", "linear_cross_entropy", LINEAR, {}, PROGRAM,
          "p.window(x, (i, at)", "p.window(x, (0, at)", device="a100"),
    Fault("all columns are the first of w", "indices", "linear_cross_entropy", LINEAR, {}, PROGRAM,
          "p.window(w, (j, at)", "p.window(w, (0, at)", device="a100"),
    Fault("maxima of rows after the last are stored", "bounds", "linear_cross_entropy", LINEAR, {}, CUDA,
          r"(tile::store<float, 1>\([^;]*) && place\d+ \+ [^;&]* < \d+\);", r"\1);", device="a100"),
    Fault("tiles of logits have the first labels", "indices", "linear_cross_entropy", LINEAR, {}, PROGRAM,
          "p.window(label, (i, 0), (bm, 1), column=True))\n    columns", "p.window(label, (0, 0), (bm, 1), column=True))\n    columns", device="a100"),
    Fault("logarithms of all rows go to the first", "indices", "linear_cross_entropy", LINEAR, {}, PROGRAM,
          'p.window(arrays["lse"], (i, 0)', 'p.window(arrays["lse"], (0, 0)', device="a100"),
    Fault("earlier tiles fade to another base", "values", "linear_cross_entropy", LINEAR, {}, PROGRAM,
          "fade = p.exp2((top - centre) * LOG2_E)", "fade = p.exp2(top - centre)", device="a100"),
    Fault("the last tiles of columns are not combined", "bounds", "linear_cross_entropy", LINEAR, {}, PROGRAM,
          "p.steps(parts, width)", "p.steps(parts - width, width)", device="a100"),
    # Gradient of the logits of a linear layer with cross entropy
    Fault("gradients read w a copy early", "orders", "linear_cross_entropy_dlogits", DLOGITS, {"stages": (3, 4), "fragment_buffers": 1, "split_k": 1}, RING,
          WAIT, EARLY, device="a100"),
    Fault("gradients read x without a barrier", "barriers", "linear_cross_entropy_dlogits", DLOGITS, {"stages": (3, 4), "fragment_buffers": 1, "split_k": 1}, RING,
          TURN, TURN.replace("    ptx::barrier_sync();\n", ""), device="a100"),
    Fault("a turned tile is read before it is stored", "barriers", "linear_cross_entropy_dlogits", DLOGITS, {"store_1": "turned"}, CUDA,
          r"ptx::barrier_sync\(\);(?=\s*#line[^\n]*\s*float v\d+\[\d+\];)", "", device="a100"),
    Fault("a turned tile overwrites operands that are read", "barriers", "linear_cross_entropy_dlogits", DLOGITS, {"store_1": "turned", "split_k": 1, "stream_k": 0, "fragment_buffers": 1}, CUDA,
          r"ptx::barrier_sync\(\);(?=\s*#line[^\n]*\s*const int at)", "", device="a100"),
    Fault("gradients leave out the last part of k", "bounds", "linear_cross_entropy_dlogits", DLOGITS, {"split_k": (2, 3, 4), "stream_k": 0}, CUDA,
          r"tile::add_parts<(\d+),", r"tile::add_parts<\1 - 1,", device="a100"),
    Fault("gradients' parts lie in one place", "indices", "linear_cross_entropy_dlogits", DLOGITS, {"split_k": (2, 3, 4), "stream_k": 0}, CUDA,
          r"parts \+ split \* (\d+)", r"parts + 0 * split * \1", device="a100"),
    Fault("gradients' parts are added without a fence", "orders", "linear_cross_entropy_dlogits", DLOGITS, {"split_k": (2, 3, 4), "stream_k": 0}, LAST,
          FENCED, "    const unsigned arrived = ptx::atomic_add(counter, 1u);", device="a100"),
    Fault("the first row of w has no gradient as a label", "bounds", "linear_cross_entropy_dlogits", DLOGITS, {}, PROGRAM,
          'p.full((bm, 1), -1, "i32")', 'p.full((bm, 1), 0, "i32")', device="a100"),
    Fault("a label after the rows of w has gradients", "bounds", "linear_cross_entropy_dlogits", DLOGITS, {}, PROGRAM,
          'p.full((bm, 1), n, "i32")', 'p.full((bm, 1), n + 1, "i32")', device="a100"),
    Fault("gradients of rows after those of x are stored", "bounds", "linear_cross_entropy_dlogits", DLOGITS, {"store_1": "turned"}, CUDA,
          r"(tile::store<autosched::bf16, \d+>\([^;]*?), place\d+ \+ [^;&]+ < \d+ && ", r"\1, ", device="a100"),
    Fault("gradients of columns after those of w are stored", "bounds", "linear_cross_entropy_dlogits", DLOGITS, {"store_1": "turned"}, CUDA,
          r"(tile::store<autosched::bf16, \d+>\([^;]*?) && place\d+ \+ [^;&]+ < \d+\)", r"\1)", device="a100"),
    Fault("a grid of logits is turned", "indices", "linear_cross_entropy_dlogits", DLOGITS, {"raster": ("grouped_2", "grouped_4")}, CUDA,
          GRID, r"raster<\1, \3, \2>", device="a100"),
    Fault("rows of a vocabulary's gradients in 32 bits", "sizes", "linear_cross_entropy_dlogits", LinearCrossEntropyDlogits(rows=32768, columns=128256, k=4096), {}, CUDA,
          r"(dlogits_array \+ )static_cast<long long>(\([^;]+?\)) \* (\d+)", r"\1\2 * \3", device="a100"),
    Fault("logarithms are taken for gradients", "indices", "linear_cross_entropy_dlogits", DLOGITS, {}, PROGRAM,
          "for array in (lse, dloss))", "for array in (dloss, lse))", device="a100"),
    Fault("all rows have the first logarithms", "indices", "linear_cross_entropy_dlogits", DLOGITS, {}, PROGRAM,
          "p.window(array, (i, 0)", "p.window(array, (0, 0)", device="a100"),
    Fault("gradients of rows of the first labels", "indices", "linear_cross_entropy_dlogits", DLOGITS, {}, PROGRAM,
          "p.window(label, (i, 0), (bm, 1), column=True))\n        sums", "p.window(label, (0, 0), (bm, 1), column=True))\n        sums", device="a100"),
    Fault("a fragment's rows have the logarithm of its first", "indices", "linear_cross_entropy_dlogits", DLOGITS, {}, CUDA,
          r"tile::subtract\((state\d+\[r\]), (v\d+)\[table_\d+\[r\]\]\)", r"tile::subtract(\1, \2[0])", device="a100"),
    Fault("shares are rounded before the gradient", "values", "linear_cross_entropy_dlogits", DLOGITS, {}, PROGRAM,
          "(shares - own) * scale", '(shares.cast(o.dtype).cast("f32") - own) * scale', device="a100"),
    Fault("the last step of k in a tile is left out", "bounds", "linear_cross_entropy_dlogits", DLOGITS, {"fragment_buffers": 1}, CUDA,
          r"step < (\d+); \+\+step", r"step < \1 - 1; ++step", device="a100"),
    Fault("a tile of w begins in the padding of x", "sizes", "linear_cross_entropy_dlogits", DLOGITS, {"layout_x": "pad(8,1)"}, CUDA,
          r"(const unsigned tile_w = stage \+ )(\d+)u", r"\1\2u / 9u * 8u", device="a100"),
    Fault("a warp releases its stage before wgmma reads it", "orders", "linear_cross_entropy_dlogits", DLOGITS, {"filled_by": "warp", "intrinsic": "wgmma_m64k16_bf16", "in_flight": 0}, BOXES,
          "body(place.tile, s);\n    if constexpr", "release(place.empty());\n    body(place.tile, s);\n    if constexpr"),
    Fault("rounds of a ring have one parity", "orders", "linear_cross_entropy_dlogits", DLOGITS, {"filled_by": "warp", "stages": (2, 3)}, BOXES,
          "      parity ^= 1u;\n", ""),
)  # fmt: skip
