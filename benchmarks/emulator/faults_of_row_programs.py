"""Faults to plant in tile programs that compute rows: norms, rotary positions, routers and cross entropy.

The faults were chosen on 2026-11-29, and committed before they were verified for the first time.
"""

# ruff: noqa: E501 - an edit is a line of a table
from __future__ import annotations

from benchmarks.emulator.planted_fault import CUDA, PROGRAM, Fault
from search_spaces.tile_operators.cross_entropy import CrossEntropy, CrossEntropyBackward
from search_spaces.tile_operators.qk_norm_rope import QkNormRope
from search_spaces.tile_operators.rmsnorm_quantize import RmsNormQuantize
from search_spaces.tile_operators.router_topk import RouterTopK

NORM, HEADS = RmsNormQuantize(rows=512, columns=5000), QkNormRope(tokens=256, heads=32)
ROUTER = RouterTopK(tokens=1000, experts=128, top=8)
LOSS, GRADIENT = CrossEntropy(rows=256, columns=8000), CrossEntropyBackward(rows=256, columns=8000)
VALUES = "tile/values.cuh"

# Patterns of generated CUDA
BEFORE_PARTS = r"ptx::barrier_sync\(\);(?=\s*#line[^\n]*\s*if \(lane)"
BEHIND_PARTS = r"ptx::barrier_sync\(\);(?=\s*#line[^\n]*\s*\{\s)"
LAST_SUM = r"\b(\w+\[\w+\]) = tile::add\(\1, part\[1\]\);"
LAST_LARGEST = r"\b(\w+\[\w+\]) = tile::maximum\(\1, part\[1\]\);"
GRID = r"raster<(raster_order\(order\), raster_group\(order\)), (\d+), (\d+)>"


def exchange(function: str, distance: int) -> str:
    """Return the pattern of one step of a reduction over the lanes of a warp."""
    return rf"\b(\w+\[\w+\]) = tile::{function}\(\1, tile::exchanged\(\1, {distance}\)\);"


OF_ROW_PROGRAMS: tuple[Fault, ...] = (
    # Norm and quantisation
    Fault("a missing barrier: the norm reads sums before all warps have stored them", "barriers", "rmsnorm_quantize", NORM, {"warps": (4, 8), "bm": 1}, CUDA,
          BEHIND_PARTS, "", device="a100"),
    Fault("a missing barrier: the row's maximum overwrites sums that other warps still read", "barriers", "rmsnorm_quantize", NORM, {"warps": (4, 8), "bm": 1}, CUDA,
          BEFORE_PARTS, "", device="a100"),
    Fault("the norm omits the second warp's sum", "values", "rmsnorm_quantize", NORM, {"warps": (2, 4), "bm": 1}, CUDA,
          LAST_SUM, "", device="a100"),
    Fault("a reduction step is missing: the norm sums only half a warp", "values", "rmsnorm_quantize", NORM, {"lanes_1": 32, "bm": 1}, CUDA,
          exchange("add", 16), "", device="a100"),
    Fault("quantised columns after the last column are stored", "bounds", "rmsnorm_quantize", NORM, {"bm": 1}, CUDA,
          r"(tile::store<autosched::e4m3, \d+>\([^;]*), place\d+ \+ [^;]* < 5000\)", r"\1, true)", device="a100"),
    Fault("the sum of a row includes columns after the last column", "bounds", "rmsnorm_quantize", NORM, {"bm": 1}, CUDA,
          r"(tile::load<autosched::bf16, \d+, float>\(&v4\[r\][^;]*), place\d+ \+ [^;]* < 5000,", r"\1, true,", device="a100"),
    Fault("the row stride of the output is 5008 instead of 5000", "indices", "rmsnorm_quantize", NORM, {"bm": 1}, CUDA,
          r"(out_array \+ static_cast<long long>\([^)]*\)) \* 5000", r"\1 * 5008", device="a100"),
    Fault("quotients are rounded towards zero", "values", "rmsnorm_quantize", NORM, {}, VALUES,
          "const unsigned even = bits + (1u << (cut - 1)) - 1u + (bits >> cut & 1u);", "const unsigned even = bits;", device="a100"),
    Fault("the norm is computed from rounded sums of x and residual", "values", "rmsnorm_quantize", NORM, {}, PROGRAM,
          'mean = p.reduction("add", added', 'added = added.cast(o.dtype).cast("f32")\n        mean = p.reduction("add", added', device="a100"),
    Fault("the reciprocal of the scale is stored", "scales", "rmsnorm_quantize", NORM, {}, PROGRAM,
          "p.store(most, p.window(scale", "p.store(1.0 / most, p.window(scale", device="a100"),
    Fault("eps is added after the reciprocal square root", "values", "rmsnorm_quantize", NORM, {}, PROGRAM,
          "p.rsqrt(mean + o.eps)", "(p.rsqrt(mean) + o.eps)", device="a100"),
    Fault("all rows add the residual of the first rows", "indices", "rmsnorm_quantize", NORM, {}, PROGRAM,
          'p.load(p.window(array, (i, 0), (bm, width))).cast("f32") for array in (x, residual)',
          'p.load(p.window(array, (at, 0), (bm, width))).cast("f32") for array, at in ((x, i), (residual, 0))', device="a100"),
    Fault("the scale ignores the last column", "bounds", "rmsnorm_quantize", NORM, {}, PROGRAM,
          "p.where(p.columns(0, width) < n,", "p.where(p.columns(0, width) < n - 1,", device="a100"),
    # Norm and rotary positions
    Fault("a missing barrier: heads read sums before all warps have stored them", "barriers", "qk_norm_rope", HEADS, {"warps": (8, 16), "lanes_1": 16, "width_1": 1}, CUDA,
          BEHIND_PARTS, "", device="a100"),
    Fault("the norm of a head omits the second warp's squares", "values", "qk_norm_rope", HEADS, {"warps": (8, 16), "lanes_1": 16, "width_1": 1}, CUDA,
          LAST_SUM, "", device="a100"),
    Fault("a shuffle has the wrong distance, so some squares are added twice", "values", "qk_norm_rope", HEADS, {"lanes_1": (8, 16)}, CUDA,
          r"(tile::exchanged\(\w+\[\w+\]), 4\)", r"\1, 8)", device="a100"),
    Fault("the position after the last row of the table counts as valid", "bounds", "qk_norm_rope", HEADS, {}, CUDA,
          r"(unsigned\(\w+\[\w+\]\)) < (\d+)u", r"\1 <= \2u", device="a100"),
    Fault("negative positions count as valid", "bounds", "qk_norm_rope", HEADS, {}, CUDA,
          r"unsigned\((\w+\[\w+\])\) < (\d+)u", r"int(\1) < \2", device="a100"),
    Fault("sines are read from the middle of the cosines", "indices", "qk_norm_rope", HEADS, {}, CUDA,
          r"(table_array \+ \()64 \+", r"\g<1>32 +", device="a100"),
    Fault("lower halves of all tokens are stored in the first token", "indices", "qk_norm_rope", HEADS, {}, PROGRAM,
          "p.window(out[token], (i, 0), (bh, half))", "p.window(out[0], (i, 0), (bh, half))", device="a100"),
    Fault("heads after the last head are stored", "bounds", "qk_norm_rope", QkNormRope(tokens=256, heads=30), {"bh": (4, 8)}, CUDA,
          r"(tile::store<autosched::bf16, \d+>\([^;]*), place\d+ \+ [^;]* < \d+\)", r"\1, true)", device="a100"),
    Fault("the normalised value is rounded before it is multiplied by the weight", "values", "qk_norm_rope", HEADS, {}, PROGRAM,
          "(part * scale * factor", '((part * scale).cast(o.dtype).cast("f32") * factor', device="a100"),
    Fault("eps is divided by the head size", "values", "qk_norm_rope", HEADS, {}, PROGRAM,
          "squares * (1.0 / d) + o.eps", "(squares + o.eps) * (1.0 / d)", device="a100"),
    Fault("the upper half is rotated with the rotated lower half", "values", "qk_norm_rope", HEADS, {}, PROGRAM,
          "p.store((low * cosines - high * sines).cast", "low = low * cosines - high * sines\n        p.store(low.cast", device="a100"),
    Fault("positions are indexed by the block of heads instead of the token", "indices", "qk_norm_rope", HEADS, {}, PROGRAM,
          "p.window(positions, (token, 0)", "p.window(positions, (i, 0)", device="a100"),
    Fault("tokens and heads of the grid are exchanged", "indices", "qk_norm_rope", HEADS, {"raster": ("grouped_2", "grouped_4"), "bh": (1, 2, 4, 8)}, CUDA,
          GRID, r"raster<\1, \3, \2>", device="a100"),
    # Routers
    Fault("a missing barrier: a router reads maxima before all warps have stored them", "barriers", "router_topk", ROUTER, {"warps": (2, 4), "lanes_1": 4}, CUDA,
          BEHIND_PARTS, "", device="a100"),
    Fault("a missing barrier: a router's indices overwrite maxima that other warps still read", "barriers", "router_topk", ROUTER, {"warps": (2, 4), "lanes_1": 4}, CUDA,
          BEFORE_PARTS, "", device="a100"),
    Fault("experts of the second warp are never chosen", "values", "router_topk", ROUTER, {"warps": (2, 4), "lanes_1": 4}, CUDA,
          r"\b(\w+\[\w+\]) = tile::minimum\(\1, part\[1\]\);", "", device="a100"),
    Fault("a reduction step is missing: lanes choose different experts", "values", "router_topk", ROUTER, {"lanes_1": (4, 8)}, CUDA,
          exchange("minimum", 2), "", device="a100"),
    Fault("experts are also stored at positions past the last token", "bounds", "router_topk", RouterTopK(tokens=1001, experts=128, top=8), {"bm": (4, 8)}, CUDA,
          r"(tile::store<int, 1>\([^;]*) && place\d+ \+ [^;&]* < \d+\)", r"\1)", device="a100"),
    Fault("experts after number 256 are never chosen", "sizes", "router_topk", RouterTopK(tokens=1000, experts=384, top=8), {}, PROGRAM,
          "NONE = 2**31 - 1", "NONE = 256", device="a100"),
    Fault("experts before the chosen expert are removed too", "values", "router_topk", ROUTER, {}, PROGRAM,
          "p.where(columns == at, -inf, left)", "p.where(columns <= at, -inf, left)", device="a100"),
    Fault("weights are computed from the remaining experts", "values", "router_topk", RouterTopK(tokens=1000, experts=128, top=8, renormalize=0), {}, PROGRAM,
          "p.exp2((row - peak) * LOG2_E)", "p.exp2((left - peak) * LOG2_E)", device="a100"),
    Fault("experts of all tokens are stored in the first rows", "indices", "router_topk", ROUTER, {}, PROGRAM,
          "p.window(expert, (i, n_th)", "p.window(expert, (0, n_th)", device="a100"),
    Fault("all tokens read the logits of the first tokens", "indices", "router_topk", ROUTER, {}, PROGRAM,
          "p.window(logits, (i, 0)", "p.window(logits, (0, 0)", device="a100"),
    Fault("weights are relative to the sum of the logits instead of their maximum", "values", "router_topk", ROUTER, {}, PROGRAM,
          'peak = p.reduction("maximumf", row, dim=1)', 'peak = p.reduction("add", p.where(columns < n, row, 0.0), dim=1)', device="a100"),
    Fault("the last expert is never chosen", "bounds", "router_topk", ROUTER, {}, PROGRAM,
          "(columns < n), columns, NONE", "(columns < n - 1), columns, NONE", device="a100"),
    Fault("a chosen logit is replaced by 0 instead of -infinity", "values", "router_topk", ROUTER, {}, PROGRAM,
          "p.where(columns == at, -inf, left)", "p.where(columns == at, 0.0, left)", device="a100"),
    Fault("weights are divided by a multiple of the first weight", "values", "router_topk", ROUTER, {}, PROGRAM,
          "else total + chosen[-1]", "else total + chosen[0]", device="a100"),
    # Cross entropy
    Fault("a missing barrier: a loss reads maxima before all warps have stored them", "barriers", "cross_entropy", LOSS, {"warps": (4, 8), "bm": (1, 2)}, CUDA,
          BEHIND_PARTS, "", device="a100"),
    Fault("a missing barrier: maxima overwrite earlier maxima that other warps still read", "barriers", "cross_entropy", LOSS, {"warps": (4, 8), "bm": (1, 2)}, CUDA,
          BEFORE_PARTS, "", device="a100"),
    Fault("the last tile reads columns after the end of the row", "bounds", "cross_entropy", LOSS, {"tail": "peeled"}, CUDA,
          r"(tile::load<autosched::bf16, \d+, float>\([^;]*), place\d+ \+ [^;]* < \d+, ", r"\1, true, ", device="a100"),
    Fault("the last column tile is skipped", "bounds", "cross_entropy", LOSS, {"tail": "peeled"}, CUDA,
          r"(turn_\d+) <= (last_turn_\d+)", r"\1 < \2", device="a100"),
    Fault("a reduction step is missing: the sum after the loop omits lanes", "values", "cross_entropy", LOSS, {"sum_1": "after_loop", "lanes_1": 32}, CUDA,
          exchange("add", 16), "", device="a100"),
    Fault("the maximum omits the second warp", "values", "cross_entropy", LOSS, {"warps": (4, 8), "bm": (1, 2)}, CUDA,
          LAST_LARGEST, "", device="a100"),
    Fault("the maximum ignores all tiles but the last", "values", "cross_entropy", LOSS, {}, PROGRAM,
          'peak = p.maximum(top, p.reduction("maximumf", tile, dim=1))', 'peak = p.reduction("maximumf", tile, dim=1)', device="a100"),
    Fault("the maximum starts at 0 instead of -infinity", "values", "cross_entropy", LOSS, {}, PROGRAM,
          "p.state(p.full((bm, 1), -inf))", "p.state(p.full((bm, 1), 0.0))", device="a100"),
    Fault("label 0 counts as missing", "bounds", "cross_entropy", LOSS, {}, PROGRAM,
          'counts = (p.full((bm, 1), -1, "i32") < wanted) & (wanted < p.full((bm, 1), n, "i32"))\n        p.store',
          'counts = (p.full((bm, 1), 0, "i32") < wanted) & (wanted < p.full((bm, 1), n, "i32"))\n        p.store', device="a100"),
    Fault("the last label counts as missing", "bounds", "cross_entropy", LOSS, {}, PROGRAM,
          '(wanted < p.full((bm, 1), n, "i32"))\n        p.store', '(wanted < p.full((bm, 1), n - 1, "i32"))\n        p.store', device="a100"),
    Fault("a label equal to the number of columns counts as valid", "bounds", "cross_entropy", LOSS, {}, PROGRAM,
          '(wanted < p.full((bm, 1), n, "i32"))\n        p.store', '(wanted < p.full((bm, 1), n + 1, "i32"))\n        p.store', device="a100"),
    Fault("the stored logarithm has base 2 instead of e", "values", "cross_entropy", LOSS, {}, PROGRAM,
          "p.store(sums, p.window(lse", "p.store(sums * LOG2_E, p.window(lse", device="a100"),
    Fault("losses of rows after the last row are stored", "bounds", "cross_entropy", CrossEntropy(rows=255, columns=8000), {"bm": (2, 4)}, CUDA,
          r"(tile::store<float, 1>\([^;]*) && place\d+ \+ [^;&]* < \d+\)", r"\1)", device="a100"),
    Fault("all rows use the labels of the first rows", "indices", "cross_entropy", LOSS, {}, PROGRAM,
          "p.window(label, (i, 0), (bm, 1), column=True))\n        top", "p.window(label, (0, 0), (bm, 1), column=True))\n        top", device="a100"),
    Fault("the running sum is rounded to bf16", "values", "cross_entropy", LOSS, {}, PROGRAM,
          "p.exp2((tile - centre) * LOG2_E), dim=1))", 'p.exp2((tile - centre) * LOG2_E), dim=1).cast("bf16").cast("f32"))', device="a100"),
    Fault("offsets of rows of logits overflow 32 bits", "sizes", "cross_entropy", CrossEntropy(rows=32768, columns=128256), {}, CUDA,
          r"(logits_array \+ )static_cast<long long>(\([^;]+?\)) \* (\d+)", r"\1\2 * \3", device="a100"),
    # Gradient of cross entropy
    Fault("gradients of columns after the last column are stored", "bounds", "cross_entropy_backward", GRADIENT, {"bm": 1}, CUDA,
          r"(tile::store<autosched::bf16, \d+>\([^;]*), place\d+ \+ [^;]* < \d+\)", r"\1, true)", device="a100"),
    Fault("gradients read logits after the end of the row", "bounds", "cross_entropy_backward", GRADIENT, {"bm": 1}, CUDA,
          r"(tile::load<autosched::bf16, \d+, float>\([^;]*), place\d+ \+ [^;]* < \d+, ", r"\1, true, ", device="a100"),
    Fault("label 0 has no gradient", "bounds", "cross_entropy_backward", GRADIENT, {}, PROGRAM,
          'counts = (p.full((bm, 1), -1, "i32") < wanted) & (wanted < p.full((bm, 1), n, "i32"))\n        own',
          'counts = (p.full((bm, 1), 0, "i32") < wanted) & (wanted < p.full((bm, 1), n, "i32"))\n        own', device="a100"),
    Fault("the last label has no gradient", "bounds", "cross_entropy_backward", GRADIENT, {}, PROGRAM,
          '(wanted < p.full((bm, 1), n, "i32"))\n        own', '(wanted < p.full((bm, 1), n - 1, "i32"))\n        own', device="a100"),
    Fault("a label equal to the number of columns has a gradient", "bounds", "cross_entropy_backward", GRADIENT, {}, PROGRAM,
          '(wanted < p.full((bm, 1), n, "i32"))\n        own', '(wanted < p.full((bm, 1), n + 1, "i32"))\n        own', device="a100"),
    Fault("rows and columns of the grid are exchanged", "indices", "cross_entropy_backward", GRADIENT, {"raster": ("grouped_2", "grouped_4")}, CUDA,
          GRID, r"raster<\1, \3, \2>", device="a100"),
    Fault("the stored logarithm is used as if its base were 2", "values", "cross_entropy_backward", GRADIENT, {}, PROGRAM,
          "p.exp2((tile - sums) * LOG2_E)", "p.exp2(tile * LOG2_E - sums)", device="a100"),
    Fault("only the label's term is multiplied by the gradient of the loss", "values", "cross_entropy_backward", GRADIENT, {}, PROGRAM,
          "(p.exp2((tile - sums) * LOG2_E) - own) * scale", "(p.exp2((tile - sums) * LOG2_E) - own * scale)", device="a100"),
    Fault("labels are compared with column numbers minus one", "indices", "cross_entropy_backward", GRADIENT, {}, PROGRAM,
          "p.where(p.columns(j, width) == wanted, 1.0", "p.where(p.columns(j, width) == wanted - 1, 1.0", device="a100"),
    Fault("gradients of all rows use the labels of the first rows", "indices", "cross_entropy_backward", GRADIENT, {}, PROGRAM,
          "p.window(label, (i, 0), (bm, 1), column=True))\n        sums", "p.window(label, (0, 0), (bm, 1), column=True))\n        sums", device="a100"),
    Fault("the softmax is rounded before the label is subtracted", "values", "cross_entropy_backward", GRADIENT, {}, PROGRAM,
          "(p.exp2((tile - sums) * LOG2_E) - own)", '(p.exp2((tile - sums) * LOG2_E).cast(o.dtype).cast("f32") - own)', device="a100"),
    Fault("f32 logits are rounded to bf16", "values", "cross_entropy_backward", CrossEntropyBackward(rows=256, columns=8000, dtype="f32"), {}, PROGRAM,
          '(i, j), (bm, width))).cast("f32")', '(i, j), (bm, width))).cast("bf16").cast("f32")', device="a100"),
    Fault("offsets of gradient rows overflow 32 bits", "sizes", "cross_entropy_backward", CrossEntropyBackward(rows=32768, columns=128256), {}, CUDA,
          r"(dlogits_array \+ )static_cast<long long>(\([^;]+?\)) \* (\d+)", r"\1\2 * \3", device="a100"),
    Fault("offsets of logit rows overflow 32 bits in the gradient kernel", "sizes", "cross_entropy_backward", CrossEntropyBackward(rows=32768, columns=128256), {}, CUDA,
          r"(\blogits_array \+ )static_cast<long long>(\([^;]+?\)) \* (\d+)", r"\1\2 * \3", device="a100"),
    Fault("the registers of a thread are assumed to hold consecutive columns", "indices", "cross_entropy_backward", GRADIENT, {"width_1": (1, 2), "bm": 1}, CUDA,
          r"\+ table_\d+\[r\]\) == ", "+ r) == ", device="a100"),
    Fault("gradients of rows after the last row are stored", "bounds", "cross_entropy_backward", CrossEntropyBackward(rows=255, columns=8000), {"bm": (2, 4)}, CUDA,
          r"(tile::store<autosched::bf16, \d+>\([^;]*?), place\d+ \+ [^;&]+ < \d+ && ", r"\1, ", device="a100"),
    Fault("gradients of all rows are stored in the first rows", "indices", "cross_entropy_backward", GRADIENT, {}, PROGRAM,
          "p.window(dlogits, (i, j)", "p.window(dlogits, (0, j)", device="a100"),
    Fault("rows without a label store 0 * dloss, which is NaN if dloss is infinite", "values", "cross_entropy_backward", GRADIENT, {}, PROGRAM,
          "p.where(counts, (p.exp2((tile - sums) * LOG2_E) - own) * scale, 0.0)", "p.where(counts, (p.exp2((tile - sums) * LOG2_E) - own), 0.0) * scale", device="a100"),
)  # fmt: skip
