"""A Llama-like block with tuned kernels: prefill of a prompt, then ten decode steps over a paged cache.

python examples/llama_block.py [FOLDER] [--steps N] [--torch]

The time model chooses the kernels for an H100, and the emulator runs them: no GPU is needed. The result is compared
with numpy in float64. With --torch, torch.compile also compiles the block, with operators of torch.ops.autosched.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

import autosched
from measurements.emulator import emulate

DEVICE = "h100"
WIDTH, HEADS, KV_HEADS, SIZE, HIDDEN = 64, 4, 2, 16, 96
PROMPT, PAGE, ENTRIES, LENGTH = 20, 16, 2, 64
EPS = 1e-5


class Emulated:
    """Operators on numpy arrays. A problem is tuned at its first call, and its kernel runs in the emulator."""

    cat = staticmethod(np.concatenate)

    def __init__(self, database):
        self.database, self.kernels = database, {}

    def run(self, problem, **inputs):
        if problem not in self.kernels:
            autosched.tune(problem, device=DEVICE, effort="model", database=self.database, progress=None)
            self.kernels[problem] = autosched.Database(self.database).look_up(problem, DEVICE).kernel
        shapes = {o.name: o.shape for o in problem.operands()}
        arrays = {name: np.ascontiguousarray(array).reshape(shapes[name]) for name, array in inputs.items()}
        done = emulate(self.kernels[problem], arrays, time_limit=60.0)
        if not done.ok:
            raise SystemExit(f"{problem.operator}: {done.status} {done.reason}")
        for name in getattr(problem, "changed_inputs", ()):
            inputs[name][...] = done.outputs[name]
        return done.outputs["out"]

    def rmsnorm(self, x, weight):
        return self.run(autosched.RmsNorm(*x.shape, dtype="f16", eps=EPS), x=x, weight=weight)

    def matmul(self, a, b):
        problem = autosched.Matmul(m=len(a), k=a.shape[1], n=b.shape[1], a="f16")
        return self.run(problem, a=a, b=b).reshape(len(a), -1)

    def append(self, qkv, positions, table, k, v, slots):
        sizes = {"heads": HEADS, "kv_heads": KV_HEADS, "head_size": SIZE, "page": PAGE, "pages": len(k)}
        problem = autosched.QkNormRopeAppend(len(qkv), **sizes, length=len(table), norm=0, dtype="f16")
        return self.run(problem, qkv=qkv, positions=positions, table=table, k=k, v=v, slots=slots)

    def attention(self, q, k, v, offsets):
        sizes = {"batch": len(offsets) - 1, "heads": q.shape[1], "kv_heads": k.shape[1], "queries": len(q)}
        problem = autosched.Attention(**sizes, head_size=q.shape[2], dtype="f16", packed=1, causal=1)
        return self.run(problem, q=q, k=k, v=v, offsets=offsets)

    def decode_attention(self, q, k, v, table, lengths):
        sizes = {"batch": len(q), "heads": q.shape[2], "kv_heads": k.shape[2], "head_size": q.shape[3]}
        problem = autosched.DecodeAttention(**sizes, entries=table.shape[1], page=k.shape[1], pages=len(k))
        return self.run(problem, q=q, k=k, v=v, table=table, lengths=lengths)

    def gated(self, x, w, ends):
        problem = autosched.GroupedMatmul(
            m=len(x), k=x.shape[1], n=w.shape[2] // 2, groups=len(w), activation="silu_up", dtype="f16"
        )
        return self.run(problem, x=x, w=w, ends=ends)


class Torch:
    """The same operators on tensors, from ``torch.ops.autosched``."""

    def __init__(self):
        import torch

        of = torch.ops.autosched
        self.cat, self.matmul, self.decode_attention = torch.cat, of.matmul, of.decode_attention
        self.rmsnorm = lambda x, weight: of.rmsnorm(x, weight, EPS)
        self.append = lambda *arrays: of.qk_norm_rope_append(*arrays[:5], slots=arrays[5])
        self.attention = lambda q, k, v, offsets: of.attention(q, k, v, offsets, causal=True)
        self.gated = lambda x, w, ends: of.grouped_matmul(x, w, ends, activation="silu_up")


def block(ops, weights, x, positions, slots, ends, table, cache):
    """Compute the block for the rows of x (a prompt or the next position), and append keys and values to the cache."""
    keys, values, pages, lengths = cache
    qkv = ops.matmul(ops.rmsnorm(x, weights["norm_1"]), weights["qkv"]).reshape(len(x), -1, SIZE)
    q = ops.append(qkv, positions, table, keys, values, slots)
    if len(x) > 1:
        k, v = (stored.reshape(-1, KV_HEADS, SIZE)[slots] for stored in (keys, values))
        mixed = ops.attention(q, k, v, ends)
    else:
        mixed = ops.decode_attention(q.reshape(1, 1, HEADS, SIZE), keys, values, pages, lengths)
    x = x + ops.matmul(mixed.reshape(len(x), -1), weights["out"])
    hidden = ops.gated(ops.rmsnorm(x, weights["norm_2"]), weights["gate_up"], ends)
    return x + ops.matmul(hidden, weights["down"])


def run(ops, step, weights, x, table, steps, array):
    """Return the block's output rows: one step for the whole prompt, then ``steps`` steps of one position each."""
    caches = [array(np.zeros((ENTRIES + 1, PAGE, KV_HEADS, SIZE), dtype=np.float16)) for _ in range(2)]
    pages, outputs = np.array([[2, 0]], dtype=np.int32), []
    for first, end in [(0, PROMPT), *((n, n + 1) for n in range(PROMPT, PROMPT + steps))]:
        positions = np.arange(first, end, dtype=np.int32)
        slots = pages[0, positions // PAGE] * PAGE + positions % PAGE
        ends, lengths = np.array([0, end - first], dtype=np.int32), np.array([end], dtype=np.int32)
        numbers = map(array, (positions, slots, ends))
        outputs.append(step(ops, weights, x[first:end], *numbers, table, (*caches, array(pages), array(lengths))))
    return np.asarray(ops.cat(outputs))


def reference(weights, x, table):
    """Compute the block for all positions at once in float64."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}

    def norm(rows, weight):
        return rows / np.sqrt(np.square(rows).mean(axis=1, keepdims=True) + EPS) * weight

    x = x.astype(np.float64)
    qkv = (norm(x, w["norm_1"]) @ w["qkv"]).reshape(len(x), -1, SIZE)
    cosines, sines = (table[: len(x), None, half : half + SIZE // 2] for half in (0, SIZE // 2))
    low, high = qkv[..., : SIZE // 2], qkv[..., SIZE // 2 :]
    turned = np.concatenate((low * cosines - high * sines, high * cosines + low * sines), axis=-1)
    mixed = np.empty((len(x), HEADS, SIZE))
    for head in range(HEADS):
        key = HEADS + head // (HEADS // KV_HEADS)
        scores = turned[:, head] @ turned[:, key].T / SIZE**0.5
        scores = np.exp(np.where(np.tri(len(x), dtype=bool), scores, -np.inf))
        mixed[:, head] = scores / scores.sum(axis=1, keepdims=True) @ qkv[:, key + KV_HEADS]
    x = x + mixed.reshape(len(x), -1) @ w["out"]
    both = norm(x, w["norm_2"]) @ w["gate_up"][0]
    gate, up = both[:, :HIDDEN], both[:, HIDDEN:]
    return x + (gate / (1.0 + np.exp(-gate)) * up) @ w["down"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path, default=Path(tempfile.gettempdir()) / "autosched-llama")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--torch", action="store_true")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    database = arguments.folder / "best.db"

    rng = np.random.default_rng(0)
    shapes = {"qkv": (WIDTH, (HEADS + 2 * KV_HEADS) * SIZE), "out": (HEADS * SIZE, WIDTH), "down": (HIDDEN, WIDTH)}
    weights = {name: rng.standard_normal(shape) * shape[0] ** -0.5 for name, shape in shapes.items()}
    weights["gate_up"] = rng.standard_normal((1, WIDTH, 2 * HIDDEN)) * WIDTH**-0.5
    weights |= {name: 1.0 + 0.1 * rng.standard_normal(WIDTH) for name in ("norm_1", "norm_2")}
    weights = {name: array.astype(np.float16) for name, array in weights.items()}
    x = rng.standard_normal((PROMPT + arguments.steps, WIDTH)).astype(np.float16)
    angles = np.arange(LENGTH)[:, None] / 10000.0 ** (np.arange(SIZE // 2) / (SIZE // 2))
    table = np.concatenate((np.cos(angles), np.sin(angles)), axis=1).astype(np.float32)

    emulated = Emulated(database)
    output = run(emulated, block, weights, x, table, arguments.steps, lambda array: array)
    error = np.abs(output - reference(weights, x, table)).max()
    print(f"{len(emulated.kernels)} kernels tuned; {PROMPT} + {arguments.steps} positions, largest error {error:.2g}")
    if not error < 0.02:
        raise SystemExit("the block's result is wrong")
    if arguments.torch:
        import torch

        import autosched.torch

        def tensor(array):
            return torch.from_numpy(np.ascontiguousarray(array))

        tensors = {name: tensor(array) for name, array in weights.items()}
        step = torch.compile(block, backend="aot_eager")
        with torch.no_grad(), autosched.torch.emulated(database, DEVICE):
            same = run(Torch(), step, tensors, tensor(x), tensor(table), arguments.steps, tensor)
        error = np.abs(same.astype(np.float64) - output).max()
        print(f"largest difference to torch.compile: {error:.2g}")
        if not error < 0.02:
            raise SystemExit("the compiled block's result is wrong")


if __name__ == "__main__":
    main()
