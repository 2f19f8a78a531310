"""Faults to plant in the statements of tile programs and in the loops of generated kernels, chosen on 2026-11-29."""

# ruff: noqa: E501 - an edit is a line of a table
from __future__ import annotations

from benchmarks.emulator.planted_fault import CUDA, PROGRAM, Fault
from search_spaces.tile_operators.attention import Attention
from search_spaces.tile_operators.attention_backward import AttentionBackward
from search_spaces.tile_operators.cross_entropy import CrossEntropy
from search_spaces.tile_operators.decode_attention import DecodeAttention
from search_spaces.tile_operators.grouped_matmul import GroupedMatmul
from search_spaces.tile_operators.qk_norm_rope import QkNormRope
from search_spaces.tile_operators.quantized_matmul import QuantizedMatmul
from search_spaces.tile_operators.rmsnorm_quantize import RmsNormQuantize

WHOLE = Attention(batch=2, heads=8, kv_heads=2, queries=1000, head_size=64)
CAUSAL = Attention(batch=2, heads=8, kv_heads=2, queries=500, keys=1000, head_size=64, causal=1)
DECODE = DecodeAttention(batch=8, heads=32, kv_heads=8, pages=512, entries=64, page=16)
INT4 = QuantizedMatmul(m=64, n=4096, k=4096)
GROUPED = GroupedMatmul(m=1000, n=1024, k=512, groups=8)
RING, BOXES = "tile/ring.cuh", "tile/box_ring.cuh"

OF_PROGRAMS: tuple[Fault, ...] = (
    # Attention
    Fault("masked keys have a score of 0 instead of -infinity", "bounds", "attention", CAUSAL, {}, PROGRAM,
          "z = p.where(seen, z, -inf)", "z = p.where(seen, z, 0.0)", device="a100"),
    Fault("the accumulator is not rescaled when the maximum rises", "values", "attention", WHOLE, {}, PROGRAM,
          "values, acc * fade))", "values, acc))", device="a100"),
    Fault("causal attention aligns the first query and the first key, but must align the last query and the last key", "indices", "attention", CAUSAL, {}, PROGRAM,
          "seen = seen & (p.columns(j, bn) <= p.rows(i + offset, bm))", "seen = seen & (p.columns(j, bn) <= p.rows(i, bm))", device="a100"),
    Fault("the window is one key too long", "bounds", "attention", Attention(batch=1, heads=4, kv_heads=4, queries=1000, head_size=64, causal=1, window=200), {}, PROGRAM,
          "> p.rows(i + (offset - o.window), bm)", ">= p.rows(i + (offset - o.window), bm)", device="a100"),
    Fault("the loop over a window starts one tile too late", "bounds", "attention", Attention(batch=1, heads=4, kv_heads=4, queries=1000, head_size=64, causal=1, window=200), {}, PROGRAM,
          "i + (offset - o.window + 1), 0) // bn * bn)", "i + (offset - o.window + bn), 0) // bn * bn)", device="a100"),
    Fault("a query head reads the keys of the wrong group", "indices", "attention", WHOLE, {}, PROGRAM, "group = head // (h // g)", "group = head % g", device="a100"),
    Fault("the keys of the next sequence are not masked", "bounds", "attention", Attention(batch=4, heads=4, kv_heads=4, queries=1000, head_size=64, packed=1), {}, PROGRAM,
          "else p.columns(j, bn) < p.columns(last, 1)", "else p.columns(j, bn) < s", device="a100"),
    Fault("the sink's weight is nearly zero", "values", "attention", Attention(batch=1, heads=4, kv_heads=4, queries=500, head_size=64, sinks=1), {}, PROGRAM,
          "total * fade + more_total", "total * fade + more_total * 2.0**-24", device="a100"),
    Fault("attention waits for too few groups of copies", "orders", "attention", WHOLE, {"stages": (3, 4)}, RING,
          "ptx::cp_async_wait_group<(C::stages >= 2 ? C::stages - 2 : 0)>();", "ptx::cp_async_wait_group<(C::stages >= 2 ? C::stages - 1 : 0)>();", device="a100"),
    Fault("a missing barrier between iterations of the main loop", "barriers", "attention", WHOLE, {"stages": (3, 4)}, RING,
          "    ptx::barrier_sync();\n    const bool more = whole || left > ahead;", "    const bool more = whole || left > ahead;", device="a100"),
    Fault("a stage is released while wgmma reads it", "orders", "attention", WHOLE, {"filled_by": "warp", "intrinsic": "wgmma_m64k16_bf16"}, BOXES,
          "body(stage.tile, s);\n    if constexpr", "release(stage.empty());\n    body(stage.tile, s);\n    if constexpr"),
    Fault("gradients of keys include queries before the key", "bounds", "attention_backward", AttentionBackward(batch=1, heads=4, kv_heads=2, queries=300, head_size=64, causal=1), {}, PROGRAM,
          "before = p.rows(j, bt) <= p.columns(i + offset, bs)", "before = p.rows(j, bt) <= p.columns(i + offset + 1, bs)", device="a100"),
    Fault("gradients omit the term sum(result * gradient) of each row", "values", "attention_backward", AttentionBackward(batch=1, heads=4, kv_heads=2, queries=300, head_size=64), {}, PROGRAM,
          "e * (change - of_result) if bend is None else e * (change - of_result) * bend\n        acc", "e * change\n        acc", device="a100"),
    # Decoding
    Fault("all sequences use the page table of the first sequence", "indices", "decode_attention", DECODE, {}, PROGRAM,
          "p.window(table, (j // page, sequence)", "p.window(table, (j // page, 0)", device="a100"),
    Fault("the position after the end of a sequence is not masked", "bounds", "decode_attention", DECODE, {}, PROGRAM,
          "seen = p.rows(j, bn) < length\n", "seen = p.rows(j, bn) <= length\n", device="a100"),
    Fault("both splits are rescaled by the factor of the first split", "values", "decode_attention", DECODE, {"parts": (4, 8)}, PROGRAM,
          "exponent(one[0], peak), exponent(other[0], peak)", "exponent(one[0], peak), exponent(one[0], peak)", device="a100"),
    Fault("all groups use the cache scale of the first group", "scales", "decode_attention", DecodeAttention(batch=4, heads=32, kv_heads=8, pages=256, entries=32, page=64, cache="e4m3"), {}, PROGRAM,
          "scales[n], (0, group), (1, 1)", "scales[n], (0, 0), (1, 1)", device="h200"),
    Fault("a new position does not attend to itself", "bounds", "decode_attention", DecodeAttention(batch=4, heads=16, kv_heads=4, pages=256, entries=32, page=16, queries=4), {}, PROGRAM,
          "p.rows(length - (o.queries - 1), 1)", "p.rows(length - o.queries, 1)", device="a100"),
    Fault("a split is combined twice, and the next split is omitted", "indices", "decode_attention", DECODE, {"parts": (4, 8), "split_launches": 2}, CUDA,
          r"parts \+ \(\((turn_\d+) \+ 1\)\)", r"parts + (\1)", device="a100"),
    # Quantized products
    Fault("the index of a scale is computed from the iteration instead of the group", "scales", "quantized_matmul", INT4, {"bk": 64}, PROGRAM,
          "column = at // f.group if f.group else 0", "column = at // 64 if f.group else 0", device="a100"),
    Fault("the zero point is 7 instead of 8", "values", "quantized_matmul", INT4, {}, PROGRAM, "zero = MIDDLE\n", "zero = MIDDLE - 1\n", device="a100"),
    Fault("all groups use the zero point of the first group", "scales", "quantized_matmul", QuantizedMatmul(m=64, n=1024, k=2048, zero_points=1), {}, PROGRAM,
          "column = here // f.group if f.group else 0", "column = first // f.group if f.group else 0", device="a100"),
    Fault("all splits of k store their partial results at the same address", "indices", "quantized_matmul", INT4, {"parts": (2, 4)}, CUDA,
          r"parts \+ split \* (\d+)", r"parts + 0 * split * \1", device="a100"),
    # Grouped products
    Fault("the last tile of a group also writes rows of the next group", "bounds", "grouped_matmul", GROUPED, {}, PROGRAM,
          "p.window(out, (row, column), shape), rows_below=end)", "p.window(out, (row, column), shape))", device="a100"),
    Fault("the row after a group's last valid row is not cleared", "bounds", "grouped_matmul", GroupedMatmul(m=200, n=512, k=256, groups=4, rows="masked"), {}, PROGRAM,
          "p.rows(row, shape[0]) < p.rows(end, 1)", "p.rows(row, shape[0]) <= p.rows(end, 1)", device="a100"),
    Fault("the up projection uses the scales of the gate projection", "scales", "grouped_matmul", GroupedMatmul(m=300, n=512, k=512, groups=4, dtype="e4m3", w_order="col", activation="silu_up"), {}, PROGRAM,
          "position = (j + half) // BLOCK, at // BLOCK", "position = j // BLOCK, at // BLOCK", device="h200"),
    Fault("a tile's position in its group is computed from its number in the whole grid", "indices", "grouped_matmul", GROUPED, {}, PROGRAM,
          "begin + (tile - begun) * bm", "begin + tile * bm", device="a100"),
    Fault("a group has one tile too many", "indices", "grouped_matmul", GROUPED, {}, "tile/find_tile.cuh",
          "inside && upto <= tile", "inside && upto < tile", device="a100"),
    Fault("the ring's parity is reset for each tile of a block", "orders", "grouped_matmul", GROUPED, {"persistent": 1, "filled_by": ("tma", "warp")}, BOXES,
          "parity(unsigned(begun / C::stages) & 1u)", "parity(0u)"),
    Fault("the ring's stage is reset for each tile of a block", "orders", "grouped_matmul", GROUPED, {"persistent": 1, "filled_by": ("tma", "warp"), "stages": (3, 5)}, BOXES,
          "index(begun % C::stages)", "index(0)"),
    Fault("after the 32nd group, tile numbers start at zero again", "indices", "grouped_matmul", GroupedMatmul(m=1000, n=512, k=256, groups=40), {}, "tile/find_tile.cuh",
          "    upto += before;\n", "", device="a100"),
    Fault("the scale is indexed by the sorted row instead of the token", "scales", "grouped_matmul", GroupedMatmul(m=300, n=512, k=512, groups=4, tokens=400, dtype="e4m3", w_order="col"), {}, PROGRAM,
          '(chosen, at // BLOCK), (bm, 1)', '(row, at // BLOCK), (bm, 1)', device="h200"),
    # Rows
    Fault("the mean is divided by the padded width instead of the row's length", "values", "rmsnorm_quantize", RmsNormQuantize(rows=512, columns=5000), {}, PROGRAM,
          "dim=1) * (1.0 / n)", "dim=1) * (1.0 / width)", device="a100"),
    Fault("a row that starts with -infinity gives NaN", "values", "cross_entropy", CrossEntropy(rows=256, columns=8000), {}, PROGRAM,
          "centre = p.where(peak == -inf, 0.0, peak)", "centre = peak", device="a100"),
    Fault("the sine term of the rotation has the wrong sign", "indices", "qk_norm_rope", QkNormRope(tokens=256, heads=32, head_size=128), {}, PROGRAM,
          "(low * cosines - high * sines)", "(low * cosines + high * sines)", device="a100"),
)  # fmt: skip
