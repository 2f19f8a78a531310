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
    Fault("the running maximum starts at 0 instead of -infinity", "values", "decode_attention", DECODE, {}, PROGRAM,
          "p.state(p.full((1, columns), -np.inf))", "p.state(p.full((1, columns), 0.0))", device="a100"),
    Fault("a missing barrier: maxima are read before all warps have stored them", "barriers", "decode_attention", DECODE, {"subgroups_m_1": (2, 4)}, CUDA,
          BEHIND_PARTS, "", device="a100"),
    Fault("a missing barrier: weights are read before all threads have stored them", "barriers", "decode_attention", DECODE, {"subgroups_m_1": (2, 4)}, CUDA,
          r"ptx::barrier_sync\(\);(?=\s*#line[^\n]*\s*float v\d+\[\d+\];)", "", device="a100"),
    Fault("keys are read before their asynchronous copy completes", "orders", "decode_attention", DECODE, {"stages": (3, 4)}, RING, WAIT, EARLY, device="a100"),
    Fault("a missing barrier: keys are read before other threads' copies complete", "barriers", "decode_attention", PAGES, {"stages": (3, 4)}, RING,
          TURN, TURN.replace("    ptx::barrier_sync();\n", ""), device="a100"),
    Fault("the splits of the cache overlap", "indices", "decode_attention", DECODE, {"parts": (4, 8)}, CUDA,
          r"split \* all_turns / (\d+)", r"split * (all_turns / \1)", device="a100"),
    Fault("the last, incomplete tile of a sequence is skipped", "bounds", "decode_attention", DECODE, {}, CUDA,
          r"\(scalar_1 \+ \d+\) / (\d+)", r"scalar_1 / \1", device="a100"),
    Fault("a tile counts as complete if its first position exists", "bounds", "decode_attention", DECODE, {}, CUDA,
          r"if \(!\(\(\((turn_\d+) \* (\d+)\) \+ \d+\) < scalar_1\)\)", r"if (!((\1 * \2) < scalar_1))", device="a100"),
    Fault("the scale of the problem is ignored", "values", "decode_attention", replace(DECODE, scale=0.25), {}, PROGRAM,
          "exponents(p, o.scale or d**-0.5)", "exponents(p, d**-0.5)", device="a100"),
    Fault("keys of all groups are read from the first group", "indices", "decode_attention", DECODE, {}, PROGRAM,
          "line, first = number * page + inside, group * d", "line, first = number * page + inside, 0", device="a100"),
    Fault("the stride of a page is one head instead of one page", "indices", "decode_attention", replace(DECODE, order="heads"), {}, PROGRAM,
          "(number * g + p.rows(group, 1)) * page", "(number + p.rows(group, 1)) * page", device="a100"),
    Fault("page numbers may exceed the last page of the cache by one", "bounds", "decode_attention", PAGES, {}, PROGRAM,
          "high=k.shape[0] - 1)", "high=k.shape[0])", device="a100"),
    Fault("results of splits are combined relative to the first split's maximum", "values", "decode_attention", DECODE, {"parts": (4, 8)}, PROGRAM,
          "peak = p.maximum(one[0], other[0])", "peak = one[0]", device="a100"),
    Fault("the position of a query is computed from its head", "indices", "decode_attention", QUERIES, {}, PROGRAM,
          "own = p.columns(0, columns) // part +", "own = p.columns(0, columns) % part +", device="a100"),
    Fault("results of consecutive sequences overlap in the output", "indices", "decode_attention", QUERIES, {}, PROGRAM,
          "out[sequence * o.queries + n]", "out[sequence + n]", device="a100"),
    Fault("all queries store the result of the first query", "indices", "decode_attention", QUERIES, {}, PROGRAM,
          "result[:, n * part : (n + 1) * part]", "result[:, 0:part]", device="a100"),
    Fault("values are multiplied by the scale of keys", "scales", "decode_attention", NARROW, {}, PROGRAM,
          "result = result * of_values", "result = result * of_keys", device="h200"),
    Fault("the last split of the cache is not combined", "bounds", "decode_attention", DECODE, {"parts": (4, 8), "split_launches": 2}, CUDA,
          r"(turn_\d+) < (\d+); \+\+\1\) \{(?=\s*#line[^\n]*\s*tile::get_part)", r"\1 < \2 - 1; ++\1) {", device="a100"),
    Fault("a missing fence: splits are combined before their results are visible", "orders", "decode_attention", DECODE, {"parts": (4, 8), "split_launches": 1}, LAST,
          FENCED, "    const unsigned arrived = ptx::atomic_add(counter, 1u);", device="a100"),
    Fault("the length of a sequence may exceed the page table", "bounds", "decode_attention", DECODE, {}, PROGRAM,
          "high=entries * page)", "high=2 * entries * page)", device="a100"),
    # A linear layer and cross entropy
    Fault("a missing barrier: maxima of logits are read before all warps have stored them", "barriers", "linear_cross_entropy", LINEAR, {"products_subgroups_n": (2, 4, 8)}, CUDA,
          BEHIND_PARTS, "", device="a100"),
    Fault("a missing barrier: sums overwrite maxima that other warps still read", "barriers", "linear_cross_entropy", LINEAR, {"products_subgroups_n": (2, 4, 8)}, CUDA,
          BEFORE_PARTS, "", device="a100"),
    Fault("the sum omits the second warp's exponentials", "values", "linear_cross_entropy", LINEAR, {"products_subgroups_n": (2, 4, 8)}, CUDA,
          LAST_SUM, "", device="a100"),
    Fault("a reduction step is missing: the sum omits exponentials of some lanes", "values", "linear_cross_entropy", LINEAR, {}, CUDA,
          r"\b(v\d+\[r\]) = tile::add\(\1, tile::exchanged\(\1, 2\)\);", "", device="a100"),
    Fault("columns of w are read before their asynchronous copy completes", "orders", "linear_cross_entropy", LINEAR, {"products_stages": (3, 4), "products_fragment_buffers": 1, "products_split_k": 1}, RING,
          WAIT, EARLY, device="a100"),
    Fault("a missing barrier: a stage of x and w is refilled while threads read it", "barriers", "linear_cross_entropy", LINEAR, {"products_stages": (3, 4), "products_fragment_buffers": 1, "products_split_k": 1}, RING,
          TURN, TURN.replace("    ptx::barrier_sync();\n", ""), device="a100"),
    Fault("the last split of k is not added", "bounds", "linear_cross_entropy", LINEAR, SPLIT, CUDA,
          r"tile::add_parts<(\d+),", r"tile::add_parts<\1 - 1,", device="a100"),
    Fault("all splits store their partial logits at the same address", "indices", "linear_cross_entropy", LINEAR, SPLIT, CUDA,
          r"parts \+ split \* (\d+)", r"parts + 0 * split * \1", device="a100"),
    Fault("a missing fence: partial logits are added before they are visible", "orders", "linear_cross_entropy", LINEAR, SPLIT, LAST,
          FENCED, "    const unsigned arrived = ptx::atomic_add(counter, 1u);", device="a100"),
    Fault("a label equal to the number of rows of w counts as valid", "bounds", "linear_cross_entropy", LINEAR, {}, PROGRAM,
          'p.full((rows, 1), o.columns, "i32")', 'p.full((rows, 1), o.columns + 1, "i32")', device="a100"),
    Fault("label 0 counts as invalid", "bounds", "linear_cross_entropy", LINEAR, {}, PROGRAM,
          'p.full((rows, 1), -1, "i32")', 'p.full((rows, 1), 0, "i32")', device="a100"),
    Fault("losses are logarithms to base 2 instead of e", "values", "linear_cross_entropy", LINEAR, {}, PROGRAM,
          "p.log2(total) * (1.0 / LOG2_E)", "p.log2(total)", device="a100"),
    Fault("losses omit the maximum of the logits", "values", "linear_cross_entropy", LINEAR, {}, PROGRAM,
          " + p.where(top == -inf, 0.0, top)", "", device="a100"),
    Fault("the combination of tiles starts with a maximum of 0 instead of -infinity", "values", "linear_cross_entropy", LINEAR, {}, PROGRAM,
          "p.state(p.full((rows, 1), -inf))", "p.state(p.full((rows, 1), 0.0))", device="a100"),
    Fault("the label's logit and the sum are exchanged", "indices", "linear_cross_entropy", LINEAR, {}, PROGRAM,
          'for n in ("total", "own"))', 'for n in ("own", "total"))', device="a100"),
    Fault("all row tiles read the first rows of x", "indices", "linear_cross_entropy", LINEAR, {}, PROGRAM,
          "p.window(x, (i, at)", "p.window(x, (0, at)", device="a100"),
    Fault("all column tiles read the first rows of w", "indices", "linear_cross_entropy", LINEAR, {}, PROGRAM,
          "p.window(w, (j, at)", "p.window(w, (0, at)", device="a100"),
    Fault("maxima are also stored for rows beyond the last row", "bounds", "linear_cross_entropy", LINEAR, {}, CUDA,
          r"(tile::store<float, 1>\([^;]*) && place\d+ \+ [^;&]* < \d+\);", r"\1);", device="a100"),
    Fault("all row tiles read the first labels", "indices", "linear_cross_entropy", LINEAR, {}, PROGRAM,
          "p.window(label, (i, 0), (bm, 1), column=True))\n    columns", "p.window(label, (0, 0), (bm, 1), column=True))\n    columns", device="a100"),
    Fault("the logarithms of all row tiles are stored in the first rows", "indices", "linear_cross_entropy", LINEAR, {}, PROGRAM,
          'p.window(arrays["lse"], (i, 0)', 'p.window(arrays["lse"], (0, 0)', device="a100"),
    Fault("sums of earlier tiles are rescaled to base e instead of 2", "values", "linear_cross_entropy", LINEAR, {}, PROGRAM,
          "fade = p.exp2((top - centre) * LOG2_E)", "fade = p.exp2(top - centre)", device="a100"),
    Fault("the last column tiles are not combined", "bounds", "linear_cross_entropy", LINEAR, {}, PROGRAM,
          "p.steps(parts, width)", "p.steps(parts - width, width)", device="a100"),
    # Gradient of the logits of a linear layer with cross entropy
    Fault("gradients read w before its asynchronous copy completes", "orders", "linear_cross_entropy_dlogits", DLOGITS, {"stages": (3, 4), "fragment_buffers": 1, "split_k": 1}, RING,
          WAIT, EARLY, device="a100"),
    Fault("a missing barrier: gradients read x before other threads' copies complete", "barriers", "linear_cross_entropy_dlogits", DLOGITS, {"stages": (3, 4), "fragment_buffers": 1, "split_k": 1}, RING,
          TURN, TURN.replace("    ptx::barrier_sync();\n", ""), device="a100"),
    Fault("a missing barrier: a transposed tile is read before it is stored completely", "barriers", "linear_cross_entropy_dlogits", DLOGITS, {"store_1": "turned"}, CUDA,
          r"ptx::barrier_sync\(\);(?=\s*#line[^\n]*\s*float v\d+\[\d+\];)", "", device="a100"),
    Fault("a missing barrier: a transposed tile overwrites operands that other threads still read", "barriers", "linear_cross_entropy_dlogits", DLOGITS, {"store_1": "turned", "split_k": 1, "stream_k": 0, "fragment_buffers": 1}, CUDA,
          r"ptx::barrier_sync\(\);(?=\s*#line[^\n]*\s*const int at)", "", device="a100"),
    Fault("gradients omit the last split of k", "bounds", "linear_cross_entropy_dlogits", DLOGITS, {"split_k": (2, 3, 4), "stream_k": 0}, CUDA,
          r"tile::add_parts<(\d+),", r"tile::add_parts<\1 - 1,", device="a100"),
    Fault("all splits store their partial gradients at the same address", "indices", "linear_cross_entropy_dlogits", DLOGITS, {"split_k": (2, 3, 4), "stream_k": 0}, CUDA,
          r"parts \+ split \* (\d+)", r"parts + 0 * split * \1", device="a100"),
    Fault("a missing fence: partial gradients are added before they are visible", "orders", "linear_cross_entropy_dlogits", DLOGITS, {"split_k": (2, 3, 4), "stream_k": 0}, LAST,
          FENCED, "    const unsigned arrived = ptx::atomic_add(counter, 1u);", device="a100"),
    Fault("label 0 has no gradient of the logits", "bounds", "linear_cross_entropy_dlogits", DLOGITS, {}, PROGRAM,
          'p.full((bm, 1), -1, "i32")', 'p.full((bm, 1), 0, "i32")', device="a100"),
    Fault("a label equal to the number of rows of w has gradients", "bounds", "linear_cross_entropy_dlogits", DLOGITS, {}, PROGRAM,
          'p.full((bm, 1), n, "i32")', 'p.full((bm, 1), n + 1, "i32")', device="a100"),
    Fault("gradients are also stored for rows after the last row of x", "bounds", "linear_cross_entropy_dlogits", DLOGITS, {"store_1": "turned"}, CUDA,
          r"(tile::store<autosched::bf16, \d+>\([^;]*?), place\d+ \+ [^;&]+ < \d+ && ", r"\1, ", device="a100"),
    Fault("gradients are also stored in columns that correspond to no row of w", "bounds", "linear_cross_entropy_dlogits", DLOGITS, {"store_1": "turned"}, CUDA,
          r"(tile::store<autosched::bf16, \d+>\([^;]*?) && place\d+ \+ [^;&]+ < \d+\)", r"\1)", device="a100"),
    Fault("rows and columns of the grid over the logits are exchanged", "indices", "linear_cross_entropy_dlogits", DLOGITS, {"raster": ("grouped_2", "grouped_4")}, CUDA,
          GRID, r"raster<\1, \3, \2>", device="a100"),
    Fault("offsets of gradient rows overflow 32 bits with a large vocabulary", "sizes", "linear_cross_entropy_dlogits", LinearCrossEntropyDlogits(rows=32768, columns=128256, k=4096), {}, CUDA,
          r"(dlogits_array \+ )static_cast<long long>(\([^;]+?\)) \* (\d+)", r"\1\2 * \3", device="a100"),
    Fault("the logarithms of sums and the gradients of losses are exchanged", "indices", "linear_cross_entropy_dlogits", DLOGITS, {}, PROGRAM,
          "for array in (lse, dloss))", "for array in (dloss, lse))", device="a100"),
    Fault("all row tiles read the logarithms of the first rows", "indices", "linear_cross_entropy_dlogits", DLOGITS, {}, PROGRAM,
          "p.window(array, (i, 0)", "p.window(array, (0, 0)", device="a100"),
    Fault("gradients of all row tiles use the first labels", "indices", "linear_cross_entropy_dlogits", DLOGITS, {}, PROGRAM,
          "p.window(label, (i, 0), (bm, 1), column=True))\n        sums", "p.window(label, (0, 0), (bm, 1), column=True))\n        sums", device="a100"),
    Fault("all rows of a fragment use the logarithm of its first row", "indices", "linear_cross_entropy_dlogits", DLOGITS, {}, CUDA,
          r"tile::subtract\((state\d+\[r\]), (v\d+)\[table_\d+\[r\]\]\)", r"tile::subtract(\1, \2[0])", device="a100"),
    Fault("probabilities are rounded before the label is subtracted", "values", "linear_cross_entropy_dlogits", DLOGITS, {}, PROGRAM,
          "(shares - own) * scale", '(shares.cast(o.dtype).cast("f32") - own) * scale', device="a100"),
    Fault("the last step along k in a tile is skipped", "bounds", "linear_cross_entropy_dlogits", DLOGITS, {"fragment_buffers": 1}, CUDA,
          r"step < (\d+); \+\+step", r"step < \1 - 1; ++step", device="a100"),
    Fault("the tile of w starts within the padding of the tile of x", "sizes", "linear_cross_entropy_dlogits", DLOGITS, {"layout_x": "pad(8,1)"}, CUDA,
          r"(const unsigned tile_w = stage \+ )(\d+)u", r"\1\2u / 9u * 8u", device="a100"),
    Fault("a stage is released before wgmma reads it", "orders", "linear_cross_entropy_dlogits", DLOGITS, {"filled_by": "warp", "intrinsic": "wgmma_m64k16_bf16", "in_flight": 0}, BOXES,
          "body(stage.tile, s);\n    if constexpr", "release(stage.empty());\n    body(stage.tile, s);\n    if constexpr"),
    Fault("the ring's parity does not alternate between rounds", "orders", "linear_cross_entropy_dlogits", DLOGITS, {"filled_by": "warp", "stages": (2, 3)}, BOXES,
          "      parity ^= 1u;\n", ""),
)  # fmt: skip
