"""Choose the experts of each token: the largest logits of a router, and weights by softmax."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar, Self

import numpy as np

from search_spaces.arrays import Array, FloatArray
from search_spaces.hardware.dtypes import F32, FLOAT_DTYPES, I32
from search_spaces.launches.operand import Operand
from search_spaces.operators.input_cases import StressInputs
from search_spaces.operators.problem import option
from search_spaces.tile_operators.softmax_rows import LOG2_E
from search_spaces.tile_operators.tile_problem import ReducedLoops, TileProblem, cut

MOST_EXPERTS, MOST_CHOSEN = 512, 16
NONE = 2**31 - 1  # marks that no expert is chosen; larger than the index of any expert


@dataclass(frozen=True)
class RouterTopK(TileProblem):
    """The ``top`` experts of each token, with weights.

    Arrays: logits (tokens, experts); weight (tokens, top) of f32 and expert (tokens, top) of i32, in descending order
    of logits. Among equal logits the lowest index is first. With ``renormalize=1``, weights are the softmax over the
    chosen logits, otherwise the softmax over all logits. Logits must be finite.

    Experts are exact, and the tolerance of weights is the interpreter's bound. Raises ValueError for sizes below 1,
    more than 512 experts, and ``top`` above 16 or the number of experts.
    """

    operator: ClassVar[str] = "router_topk"
    summary: ClassVar[str] = "for each token, the experts with the largest logits, and their softmax weights"
    inputs: ClassVar[tuple[str, ...]] = ("logits",)
    outputs: ClassVar[int] = 2
    call_options: ClassVar[Mapping[str, Any]] = {"top": 8, "renormalize": True}
    size_fields: ClassVar[tuple[str, ...]] = ("tokens", "experts")

    tokens: int = option("rows of logits")
    experts: int = option("columns of logits")
    top: int = option("experts that are chosen", 8)
    renormalize: int = option("1 to make each token's weights sum to 1; 0 to keep the softmax over all experts", 1)
    dtype: str = option("type of logits", "f32", choices=tuple(FLOAT_DTYPES))

    @property
    def batch_sizes(self) -> Mapping[str, int]:
        """The size along which results are independent: ``tokens``."""
        return {"tokens": 4096}

    def __post_init__(self) -> None:
        self._take_types("dtype")
        self._take_extents("tokens", "experts", "top")
        object.__setattr__(self, "renormalize", int(self.renormalize))
        if self.dtype not in FLOAT_DTYPES:
            raise ValueError(f"dtype must be {', '.join(FLOAT_DTYPES)}, not {self.dtype!r}")
        if self.experts > MOST_EXPERTS:
            raise ValueError(f"experts must be at most {MOST_EXPERTS}, not {self.experts}")
        if self.top > min(MOST_CHOSEN, self.experts):
            raise ValueError(f"top must be at most {min(MOST_CHOSEN, self.experts)}, not {self.top}")

    def operands(self) -> tuple[Operand, ...]:
        """Return logits, then weight and expert."""
        return (
            Operand("logits", "input", FLOAT_DTYPES[self.dtype], (self.tokens, self.experts)),
            Operand("weight", "output", F32, (self.tokens, self.top)),
            Operand("expert", "output", I32, (self.tokens, self.top)),
        )

    @classmethod
    def of_arrays(cls, shapes: Mapping[str, tuple[int, ...]], types: Mapping[str, str], **options: Any) -> Self:
        """Return the problem for logits (tokens, experts)."""
        if len(shapes["logits"]) != 2:
            raise ValueError(f"router_topk takes logits (tokens, experts), not {shapes['logits']}")
        return cls(*shapes["logits"], dtype=types["logits"], **options)

    @property
    def flops(self) -> float:
        """Number of operations: two per logit for each chosen expert."""
        return 2.0 * self.tokens * self.experts * self.top

    def views(self) -> Mapping[str, str]:
        """Return the extents m (tokens), n (experts) and k (top) of each operand."""
        return {"logits": "m n", "weight": "m k", "expert": "m k"}

    def extents(self) -> Mapping[str, int]:
        """Return the sizes m, n and k."""
        return {"m": self.tokens, "n": self.experts, "k": self.top}

    @staticmethod
    def compute(p: Any, o: Any, logits: Any, weight: Any, expert: Any) -> None:
        """Write the tile program: each block has a few tokens, and selects the largest remaining logit repeatedly."""
        m, n = logits.shape
        bm, width = p.choose(bm=(4, 8, 16)), p.cover(n)
        (i,) = p.blocks((m,), (bm,))
        row = p.load(p.window(logits, (i, 0), (bm, width)), padding=-inf).cast("f32")
        columns, left = p.columns(0, width), row
        peak = p.reduction("maximumf", row, dim=1)
        chosen, total = [], None
        for n_th in range(o.top):
            most = p.reduction("maximumf", left, dim=1)
            at = p.reduction("minsi", p.where((left == most) & (columns < n), columns, NONE), dim=1)
            p.store(at, p.window(expert, (i, n_th), (bm, 1)))
            left = p.where(columns == at, -inf, left)
            chosen.append(p.exp2((most - peak) * LOG2_E))
            total = chosen[-1] if total is None else total + chosen[-1]
        if not o.renormalize:
            total = p.reduction("add", p.exp2((row - peak) * LOG2_E), dim=1)
        for n_th, one in enumerate(chosen):
            p.store(one / total, p.window(weight, (i, n_th), (bm, 1)))

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Return weights and experts from a stable sort in float64."""
        logits = self.loaded(inputs)["logits"]
        order = np.argsort(-logits, axis=1, kind="stable")[:, : self.top]
        with np.errstate(invalid="ignore"):
            scores = np.exp(logits - logits.max(axis=1, keepdims=True))
        chosen = np.take_along_axis(scores, order, axis=1)
        total = (chosen if self.renormalize else scores).sum(axis=1, keepdims=True)
        return {"weight": chosen / total, "expert": order.astype(np.float64)}

    def own_cases(self, inputs: Mapping[str, Array]) -> Iterator[StressInputs]:
        """Yield equal logits, for which the lowest indices must be chosen, and logits whose exponentials overflow."""
        dtype, logits = self.operand("logits").dtype, self.loaded(inputs)["logits"]
        odd = np.arange(self.tokens)[:, None] % 2
        for name, cases in (("ties", np.rint(logits) - 64.0 * odd), ("large", np.rint(logits * 8.0) + 512.0)):
            yield StressInputs((f"logits: {name}",), {"logits": dtype.store(cases)})

    def reduced(self, loops: ReducedLoops) -> Self:
        """Return a problem with a few tokens."""
        return replace(self, tokens=cut(self.tokens, loops.chosen["bm"]))
