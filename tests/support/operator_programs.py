"""Operators of language and image models as tile programs, each with a reference in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from search_spaces.arrays import FloatArray
from search_spaces.programs.builder import Builder, InOut, Input, Output, Program, program
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.ir import Array
from search_spaces.programs.language.values import Tile

Distributions = Mapping[str, FloatArray]
Scores = Callable[[Builder, Tile, Tile, Tile, Index], Tile]
INFINITY = float("inf")
OF_HEADS = {name: Input("h s d", "f16") for name in "qkv"}
WINDOW, CAP = 9, 2.0


def attention(p: Builder, q: Array, k: Array, v: Array, o: Array, scores: Scores) -> None:
    """Compute attention with a score function that may depend on rows, columns and the head."""
    h, s, d = q.shape
    bm, bn = 32, 16
    head, i = p.blocks((h, s), (1, bm))
    query = p.load(p.window(q[head], (i, 0), (bm, d)))
    top, total, acc = p.state(p.full((bm, 1), -INFINITY)), p.state(p.zeros((bm, 1))), p.state(p.zeros((bm, d)))
    for j in p.steps(s, bn):
        z = p.mma(query, p.transpose(p.load(p.window(k[head], (j, 0), (bn, d))))) * (1 / d**0.5)
        rows, columns = p.rows(i, bm), p.columns(j, bn)
        z = p.where((columns <= rows) & (columns < s), scores(p, z, rows, columns, head), -INFINITY)
        peak = p.maximum(top, p.reduction("maximumf", z, dim=1))
        centre = p.where(peak == -INFINITY, 0.0, peak)
        e, fade = p.exp(z - centre), p.exp(top - centre)
        total.set(total * fade + p.reduction("add", e, dim=1))
        acc.set(p.mma(e.cast("f16"), p.load(p.window(v[head], (j, 0), (bn, d))), acc * fade))
        top.set(peak)
    p.store((acc / total).cast("f16"), p.window(o[head], (i, 0), (bm, d)))


def attended(x: Distributions, scores: Callable[[FloatArray, FloatArray, int], FloatArray]) -> FloatArray:
    """Return the reference of ``attention``.

    ``scores`` has three arguments: the scaled products q @ k^T, the array of (column - row), and the head's index.
    """
    h, s, d = x["q"].shape
    result = np.zeros_like(x["q"])
    for head in range(h):
        far = np.arange(s)[None, :] - np.arange(s)[:, None]
        z = scores(x["q"][head] @ x["k"][head].T / d**0.5, far.astype(np.float64), head)
        e = np.exp(np.where(far > 0, -np.inf, z))
        result[head] = e / e.sum(axis=1, keepdims=True) @ x["v"][head]
    return result


@program(**OF_HEADS, o=Output("h s d", "f16"))
def window_by_mask(p: Builder, q: Array, k: Array, v: Array, o: Array) -> None:
    attention(p, q, k, v, o, lambda p, z, rows, columns, head: p.where(rows - columns < WINDOW, z, -INFINITY))


@program(**OF_HEADS, o=Output("h s d", "f16"))
def soft_cap(p: Builder, q: Array, k: Array, v: Array, o: Array) -> None:
    attention(p, q, k, v, o, lambda p, z, rows, columns, head: p.tanh(z * (1 / CAP)) * CAP)


@program(**OF_HEADS, o=Output("h s d", "f16"))
def alibi(p: Builder, q: Array, k: Array, v: Array, o: Array) -> None:
    def scores(p: Builder, z: Tile, rows: Tile, columns: Tile, head: Index) -> Tile:
        slope = p.exp2(-1.0 - p.rows(head, 1).cast("f32"))
        return z + slope * (columns - rows).cast("f32")

    attention(p, q, k, v, o, scores)


@program(x=Input("t d", "f16"), weight=Input("d", "f32"), angle=Input("t half", "f32"), out=Output("t d", "f16"))
def norm_and_rotate(p: Builder, x: Array, weight: Array, angle: Array, out: Array) -> None:
    """Apply an RMS norm and a rotary embedding to heads of 48 elements."""
    (t, d), half = x.shape, angle.shape[1]
    (i,) = p.blocks((t,), (8,))
    row = p.load(p.window(x, (i, 0), (8, d))).cast("f32")
    row = row * p.rsqrt(p.reduction("add", row * row, dim=1) / d + 1e-5) * p.load(p.window(weight, (0, 0), (1, d)))
    rotation = p.load(p.window(angle, (i, 0), (8, half)))
    c, s, low, high = p.cosine(rotation), p.sine(rotation), row[:, :half], row[:, half:]
    p.store(p.join((low * c - high * s, high * c + low * s), dim=1).cast("f16"), p.window(out, (i, 0), (8, d)))


def normed_and_rotated(x: Distributions) -> FloatArray:
    row = x["x"] / np.sqrt((x["x"] ** 2).mean(axis=1, keepdims=True) + 1e-5) * x["weight"]
    low, high = np.split(row, 2, axis=1)
    c, s = np.cos(x["angle"]), np.sin(x["angle"])
    return np.concatenate([low * c - high * s, high * c + low * s], axis=1)


@program(x=Input("images c pixels", "f16"), scale=Input("c", "f32"), out=Output("images c pixels", "f16"))
def group_norm(p: Builder, x: Array, scale: Array, out: Array) -> None:
    """Normalise groups of channels of 7x7 images. A group has four channels."""
    images, channels, pixels = x.shape
    image, i = p.blocks((images, channels), (1, 4))
    width, count = p.cover(pixels), 4 * pixels
    inside = p.columns(0, width) < pixels
    group = p.load(p.window(x[image], (i, 0), (4, width))).cast("f32")
    mean = p.reduction("add", p.reduction("add", group, dim=1), dim=0) / count
    centred = p.where(inside, group - mean, 0.0)
    spread = p.reduction("add", p.reduction("add", centred * centred, dim=1), dim=0) / count
    factor = p.load(p.window(scale, (i, 0), (4, 1), column=True))
    p.store((centred * p.rsqrt(spread + 1e-5) * factor).cast("f16"), p.window(out[image], (i, 0), (4, width)))


def group_normed(x: Distributions) -> FloatArray:
    images, channels, pixels = x["x"].shape
    groups = x["x"].reshape(images, channels // 4, 4 * pixels)
    groups = (groups - groups.mean(axis=2, keepdims=True)) / np.sqrt(groups.var(axis=2, keepdims=True) + 1e-5)
    return groups.reshape(x["x"].shape) * x["scale"][:, None]


@program(x=Input("m n", "f32"), out=Output("m four", "f32"))
def top_four(p: Builder, x: Array, out: Array) -> None:
    width = p.cover(x.shape[1])
    (i,) = p.blocks((x.shape[0],), (4,))
    row = p.load(p.window(x, (i, 0), (4, width)), padding=-INFINITY)
    for at, (largest, _) in enumerate(p.top_k(row, 4, dim=1)):
        p.store(largest, p.window(out, (i, at), (4, 1)))


@program(x=Input("t c", "f16"), w=Input("taps c", "f32"), out=Output("t c", "f16"))
def causal_convolution(p: Builder, x: Array, w: Array, out: Array) -> None:
    """Apply SiLU to a causal depthwise convolution along each channel."""
    i, j = p.blocks(x.shape, (16, 32))
    taps, total = w.shape[0], p.zeros((16, 32))
    for tap in range(taps):
        part = p.load(p.window(x, (i + tap - (taps - 1), j), (16, 32))).cast("f32")
        total = total + part * p.load(p.window(w, (tap, j), (1, 32)))
    p.store((total * p.sigmoid(total)).cast("f16"), p.window(out, (i, j), (16, 32)))


def convolved(x: Distributions) -> FloatArray:
    taps, positions = len(x["w"]), len(x["x"])
    padded = np.concatenate([np.zeros((taps - 1, x["x"].shape[1])), x["x"]])
    total: FloatArray = sum(padded[tap : tap + positions] * x["w"][tap] for tap in range(taps))  # type: ignore[assignment]
    return total / (1 + np.exp(-total))


@program(x=Input("e rows k", "f16"), w=Input("e k n", "f16"), count=Input("e", "i32"), out=InOut("e rows n", "f16"))
def counted_groups(p: Builder, x: Array, w: Array, count: Array, out: Array) -> None:
    """Multiply the rows of groups, which have different numbers of rows. Other rows are not changed."""
    (e, rows, k), n = x.shape, w.shape[2]
    group, i, j = p.blocks((e, rows, n), (1, 32, 32))
    end = p.load_scalar(count, group, high=rows)
    acc = p.state(p.zeros((32, 32)))
    for at in p.steps(k, 32):
        left, right = p.window(x[group], (i, at), (32, 32)), p.window(w[group], (at, j), (32, 32))
        acc.set(p.mma(p.load(left), p.load(right), acc))
    p.store(acc.read().cast("f16"), p.window(out[group], (i, j), (32, 32)), rows_below=end)


def counted(x: Distributions) -> FloatArray:
    inside = np.arange(x["x"].shape[1])[None, :, None] < x["count"][:, None, None]
    return np.where(inside, x["x"] @ x["w"], x["out"])


@program(x=Input("m n", "f16"), out=Output("n n", "f32"))
def gram(p: Builder, x: Array, out: Array) -> None:
    i, j = p.blocks(out.shape, (32, 32))
    acc = p.state(p.zeros((32, 32)))
    for at in p.steps(x.shape[0], 32):
        left, right = p.load(p.window(x, (at, i), (32, 32))), p.load(p.window(x, (at, j), (32, 32)))
        acc.set(p.mma(p.transpose(left), right, acc))
    p.store(acc, p.window(out, (i, j), (32, 32)))


@program(segment=Input("m", "i32"), x=Input("m n", "f32"), sums=InOut("e n", "f32"), count=InOut("e", "i32"))
def segment_sums(p: Builder, segment: Array, x: Array, sums: Array, count: Array) -> None:
    """Add each row to the sum of the row's segment, and count the rows of each segment."""
    m, n = x.shape
    i, j = p.blocks((m, n), (16, 32))
    row_segment = p.load(p.window(segment, (i, 0), (16, 1), column=True), padding=-1)
    p.atomic_add(p.load(p.window(x, (i, j), (16, 32))), p.window(sums, (row_segment, j), (16, 32)))
    with p.when(j):
        p.atomic_add(p.full((16, 1), 1, "i32"), p.window(count, row_segment, (16, 1)))


def segment_totals(x: Distributions) -> FloatArray:
    totals = x["sums"].copy()
    for segment, row in zip(x["segment"].astype(int), x["x"], strict=True):
        if 0 <= segment < len(totals):
            totals[segment] += row
    return totals


@program(**OF_HEADS, o=Output("h s d", "f16"))
def linear_attention(p: Builder, q: Array, k: Array, v: Array, o: Array) -> None:
    """Compute causal attention without a softmax, 32 rows at a time. The state holds the sums of earlier rows."""
    h, s, d = q.shape
    (head,) = p.blocks((h,), (1,))
    before = p.state(p.zeros((d, d)))
    for t in p.steps(s, 32):
        query, key, value = (p.load(p.window(x[head], (t, 0), (32, d))) for x in (q, k, v))
        z = p.where(p.columns(0, 32) <= p.rows(0, 32), p.mma(query, p.transpose(key)), 0.0)
        attention = p.mma(query, before.read().cast("f16"), p.mma(z.cast("f16"), value))
        p.store(attention.cast("f16"), p.window(o[head], (t, 0), (32, d)))
        before.set(p.mma(p.transpose(key), value, before))


def linearly_attended(x: Distributions) -> FloatArray:
    s = x["q"].shape[1]
    attention: FloatArray = np.where(np.tril(np.ones((s, s))) > 0, x["q"] @ x["k"].transpose(0, 2, 1), 0.0) @ x["v"]
    return attention


SMOOTHING, IGNORED = 0.1, -100


@program(logits=Input("m n", "f16"), label=Input("m", "i32"), loss=Output("m", "f32"))
def smoothed_loss(p: Builder, logits: Array, label: Array, loss: Array) -> None:
    """Compute cross entropy with label smoothing. The loss of ignored labels is 0."""
    m, n = logits.shape
    (i,) = p.blocks((m,), (4,))
    width = p.cover(n)
    labels = p.load(p.window(label, (i, 0), (4, 1), column=True))
    columns = p.columns(0, width)
    row = p.load(p.window(logits, (i, 0), (4, width)), padding=-INFINITY).cast("f32")
    peak = p.reduction("maximumf", row, dim=1)
    total = p.log(p.reduction("add", p.exp(row - peak), dim=1)) + peak
    own = p.reduction("add", p.where((columns == labels) & (columns < n), row, 0.0), dim=1)
    mean = p.reduction("add", p.where(columns < n, row, 0.0), dim=1) / n
    row_loss = p.where(labels == IGNORED, 0.0, total - (1 - SMOOTHING) * own - SMOOTHING * mean)
    p.store(row_loss, p.window(loss, (i, 0), (4, 1), column=True))


def smoothed_losses(x: Distributions) -> FloatArray:
    label, n = x["label"].astype(int), x["logits"].shape[1]
    own = [row[at] if 0 <= at < n else 0.0 for row, at in zip(x["logits"], label, strict=True)]
    total = np.log(np.exp(x["logits"]).sum(axis=1))
    losses: FloatArray = total - (1 - SMOOTHING) * np.array(own) - SMOOTHING * x["logits"].mean(axis=1)
    return np.where(label == IGNORED, 0.0, losses)


RATE, BETAS, DECAY, EPSILON = 1e-2, (0.9, 0.99), 0.1, 1e-3


@program(
    weight=InOut("m n", "f32"), first=InOut("m n", "f32"), second=InOut("m n", "f32"), gradient=Input("m n", "f16"),
)  # fmt: skip
def adamw(p: Builder, weight: Array, first: Array, second: Array, gradient: Array) -> None:
    """Do a step of AdamW in place, without bias correction."""
    i, j = p.blocks(weight.shape, (8, 32))
    windows = [p.window(x, (i, j), (8, 32)) for x in (weight, first, second)]
    w, m, v = (p.load(window) for window in windows)
    g = p.load(p.window(gradient, (i, j), (8, 32))).cast("f32")
    m = m * BETAS[0] + g * (1 - BETAS[0])
    v = p.absolute(v) * BETAS[1] + g * g * (1 - BETAS[1])
    w = w * (1 - RATE * DECAY) - m / (p.sqrt(v) + EPSILON) * RATE
    for value, window in zip((w, m, v), windows, strict=True):
        p.store(value, window)


def optimised(x: Distributions) -> FloatArray:
    m = x["first"] * BETAS[0] + x["gradient"] * (1 - BETAS[0])
    v = np.abs(x["second"]) * BETAS[1] + x["gradient"] ** 2 * (1 - BETAS[1])
    weight: FloatArray = x["weight"] * (1 - RATE * DECAY) - m / (np.sqrt(v) + EPSILON) * RATE
    return weight


@program(
    x=Input("m k", "f16"), w=Input("k n", "i8"), zero=Input("n", "i8"), scale=Input("n", "f32"),
    out=Output("m n", "f16"),
)  # fmt: skip
def zero_points(p: Builder, x: Array, w: Array, zero: Array, scale: Array, out: Array) -> None:
    """Compute x @ ((w - zero) * scale) with 8-bit weights."""
    i, j = p.blocks(out.shape, (32, 32))
    acc, middle = p.state(p.zeros((32, 32))), p.load(p.window(zero, (0, j), (1, 32))).cast("i32")
    for at in p.steps(x.shape[1], 32):
        weights = (p.load(p.window(w, (at, j), (32, 32))).cast("i32") - middle).cast("f32").cast("f16")
        acc.set(p.mma(p.load(p.window(x, (i, at), (32, 32))), weights, acc))
    p.store((acc * p.load(p.window(scale, (0, j), (1, 32)))).cast("f16"), p.window(out, (i, j), (32, 32)))


@program(x=Input("m n", "f16"), out=Output("m n", "f32"))
def triangle_sums(p: Builder, x: Array, out: Array) -> None:
    """Compute cumulative sums of rows as products with a triangular matrix of ones. Each iteration stores its sums."""
    m, n = x.shape
    (i,) = p.blocks((m,), (32,))
    ones = p.where(p.rows(0, 32) <= p.columns(0, 32), 1.0, p.zeros((32, 32))).cast("f16")
    before = p.state(p.zeros((32, 1)))
    for j in p.steps(n, 32):
        tile = p.load(p.window(x, (i, j), (32, 32)))
        p.store(p.mma(tile, ones) + before, p.window(out, (i, j), (32, 32)))
        before.set(before + p.reduction("add", tile.cast("f32"), dim=1))


HEADS = {"h": 2, "s": 50, "d": 32}
OPERATORS: dict[str, tuple[Program, dict[str, int], Callable[[Distributions], FloatArray]]] = {
    "window by mask": (
        window_by_mask, HEADS, lambda x: attended(x, lambda z, far, head: np.where(-far < WINDOW, z, -np.inf)),
    ),
    "soft cap": (soft_cap, HEADS, lambda x: attended(x, lambda z, far, head: np.tanh(z / CAP) * CAP)),
    "alibi": (alibi, HEADS, lambda x: attended(x, lambda z, far, head: z + 2.0 ** (-1 - head) * far)),
    "norm and rotate": (norm_and_rotate, {"t": 21, "d": 48, "half": 24}, normed_and_rotated),
    "group norm": (group_norm, {"images": 3, "c": 8, "pixels": 49}, group_normed),
    "top four": (top_four, {"m": 9, "n": 70, "four": 4}, lambda x: -np.sort(-x["x"], axis=1)[:, :4]),
    "causal convolution": (causal_convolution, {"t": 45, "c": 40, "taps": 4}, convolved),
    "counted groups": (counted_groups, {"e": 3, "rows": 40, "k": 40, "n": 40}, counted),
    "gram": (gram, {"m": 70, "n": 40}, lambda x: x["x"].T @ x["x"]),
    "segment sums": (segment_sums, {"m": 50, "n": 40, "e": 7}, segment_totals),
    "linear attention": (linear_attention, {"h": 2, "s": 70, "d": 32}, linearly_attended),
    "smoothed loss": (smoothed_loss, {"m": 9, "n": 50}, smoothed_losses),
    "adamw": (adamw, {"m": 19, "n": 70}, optimised),
    "zero points": (zero_points, {"m": 40, "k": 70, "n": 40}, lambda x: x["x"] @ ((x["w"] - x["zero"]) * x["scale"])),
    "triangle sums": (triangle_sums, {"m": 40, "n": 70}, lambda x: np.cumsum(x["x"], axis=1)),
}  # fmt: skip
