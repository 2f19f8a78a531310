"""What the plan measures: sixty problems, of which two dozen shapes of language models are compared with cuBLAS."""

from __future__ import annotations

from dataclasses import dataclass

from search_spaces.operators.copy import Copy
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import LayerNorm, Reduce, RmsNorm, Softmax
from search_spaces.operators.transpose import Transpose

# (m, n, k) of layers that multiply by weights stored as (outputs, inputs), sizes as the models publish them.
_LAYERS = (
    (4096, 6144, 4096),  # Llama 3.1 8B: query, key and value
    (4096, 28672, 4096),  # gate and up
    (4096, 4096, 14336),  # down
    (4096, 4096, 4096),  # output of attention
    (4096, 10240, 8192),  # Llama 3.1 70B: query, key and value
    (4096, 8192, 28672),  # down
    (4096, 10240, 5120),  # Qwen3 32B: query, key and value
    (4096, 5120, 25600),  # down
    (4096, 2112, 7168),  # DeepSeek V3: what queries, keys and values are compressed to
    (4096, 24576, 1536),  # queries
    (4096, 7168, 2048),  # down of an expert
    (512, 28672, 4096),
    (256, 6144, 4096),
    (128, 7168, 16384),
    (64, 28672, 4096),
    (64, 5120, 25600),
    (32, 8192, 8192),
    (16, 6144, 4096),
    (16, 2112, 7168),
    (8, 4096, 14336),
    (4, 57344, 8192),
    (1, 4096, 4096),
)
_E4M3 = ((4096, 7168, 2048), (4096, 24576, 1536), (64, 7168, 16384), (4096, 4096, 7168))
_SQUARES = (1024, 2048, 8192)
_ODD = ((1023, 1025, 1027), (4095, 4097, 4099), (333, 7777, 2047), (1000, 1000, 1000))

FINALS: tuple[Problem, ...] = (
    *(Matmul(m=m, n=n, k=k, a="bf16", order_b="col") for m, n, k in _LAYERS),
    Matmul(m=4095, n=4097, k=4099),
    Matmul(m=1000, n=1000, k=1000),
)
"""Compared with cuBLAS: odd sizes and few rows are among them."""

PROBLEMS: tuple[Problem, ...] = (
    *FINALS,
    *(Matmul(m=m, n=n, k=k, a="e4m3", order_b="col") for m, n, k in _E4M3),
    *(Matmul(m=size, n=size, k=size, a="bf16") for size in _SQUARES),
    *(Matmul(m=m, n=n, k=k) for m, n, k in _ODD if (m, n, k) not in ((4095, 4097, 4099), (1000, 1000, 1000))),
    Matmul(m=4096, n=4096, k=4096, a="i8", order_b="col"),
    Matmul(m=2048, n=2048, k=2048, a="f32"),
    Matmul(m=4096, n=4096, k=4096, a="f32"),
    Matmul(m=2048, n=2048, k=2048, order_a="col"),
    Matmul(m=4096, n=4096, k=4096, epilogue="bias+gelu"),
    Matmul(m=1024, n=1024, k=128, batch=64, order_b="col"),
    Matmul(m=256, n=256, k=256, batch=256),
    Matmul(m=512, n=512, k=32768, a="bf16"),
    Matmul(m=16384, n=128, k=8192, a="bf16"),
    Matmul(m=4096, n=4096, k=4096),
    Matvec(m=1, n=4096, k=4096, x="bf16", out="bf16"),
    Matvec(m=4, n=6656, k=16384),
    *(Softmax(4096, columns) for columns in (1024, 8192, 65536)),
    *(RmsNorm(4096, columns) for columns in (1024, 8192, 65536)),
    LayerNorm(4096, 8192),
    LayerNorm(4096, 65536),
    *(Reduce(4096, columns) for columns in (1024, 8192, 65536)),
    Reduce(16384, 16384, axis="column"),
    Transpose(8192, 8192, dtype="u16"),
    Transpose(8192, 8192),
    Copy(8192, 8192),
)

YARDSTICKS: tuple[Problem, ...] = (
    *(Copy(rows, 8192) for rows in (512, 2048, 8192, 16384, 32768)),
    Reduce(32768, 8192),
)
"""Copies of 32 MB to 2 GB, and a sum that reads without writing."""

SUSTAINED: Problem = Matmul(m=8192, n=8192, k=8192, a="bf16")
"""Runs at the power limit of an H100."""


@dataclass(frozen=True)
class OfLanguageModels:
    """A tile program at one size, and what torch computes it by.

    Attributes:
        place: The program, FILE:NAME relative to the repository.
        sizes: Its sizes.
        torch_call: A key of ``device_child.LANGUAGE``.
    """

    place: str
    sizes: tuple[tuple[str, int], ...]
    torch_call: str

    @property
    def key(self) -> str:
        return f"{self.place.rpartition(':')[2]} {' '.join(f'{name}={size}' for name, size in self.sizes)}"


_ATTENTION = ((8, 2, 2048, 128), (32, 8, 2048, 128), (32, 8, 8192, 128), (16, 16, 4096, 64))

LANGUAGE: tuple[OfLanguageModels, ...] = (
    *(
        OfLanguageModels(f"examples/programs/attention.py:{name}", (("h", h), ("g", g), ("s", s), ("d", d)), name)
        for name in ("causal_attention", "full_attention")
        for h, g, s, d in _ATTENTION[: 4 if name == "causal_attention" else 2]
    ),
    *(
        OfLanguageModels(
            "examples/programs/int4_matmul.py:int4_matmul",
            (("m", m), ("k", 4096), ("half", 2048), ("n", 6144), ("groups", 32)),
            "int4_matmul",
        )
        for m in (16, 64)
    ),
)
"""Measured beside torch's scaled_dot_product_attention and _weight_int4pack_mm."""
