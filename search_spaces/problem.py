"""What every operator family's problem offers: its operands, its reference, its tolerance, its name in a database."""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from search_spaces.dtypes import DType, FloatArray

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Operand:
    """One array argument of a kernel, dense, ``shape`` in memory order (C order).

    ``workspace`` arrays belong to the kernel; with ``zeroed`` they must be zero before the first launch, and every
    launch leaves them zero again.
    """

    name: str
    role: Literal["input", "output", "workspace"]
    dtype: DType
    shape: tuple[int, ...]
    zeroed: bool = False

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def bytes(self) -> int:
        return self.size * self.dtype.bytes


@dataclass(frozen=True)
class Problem(ABC):
    """What to compute. Subclasses are frozen dataclasses of JSON scalars; equal problems have equal ``key()``."""

    family: ClassVar[str]

    @abstractmethod
    def operands(self) -> tuple[Operand, ...]:
        """Inputs, then outputs: the arrays a caller passes."""

    @abstractmethod
    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """The outputs in float64 for stored inputs, without rounding to the output type; shapes as in memory."""

    @abstractmethod
    def tolerance(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Largest absolute error allowed for each element of each output (a rounding-error bound)."""

    @property
    @abstractmethod
    def flops(self) -> float: ...

    @cached_property
    def min_bytes(self) -> int:
        """Bytes that any kernel must move between DRAM and the chip: each operand once."""
        return sum(o.bytes for o in self.operands())

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """Standard normal inputs, stored in the operands' types."""
        rng = np.random.default_rng(seed)
        return {
            o.name: o.dtype.store(rng.standard_normal(o.shape, dtype=np.float32))
            for o in self.operands()
            if o.role == "input"
        }

    def to_json(self) -> dict[str, Any]:
        return {"family": self.family, **dataclasses.asdict(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        fields = {k: v for k, v in data.items() if k != "family"}
        return cls(**fields)

    def key(self) -> str:
        """Canonical text of the problem, used as its identity in databases."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
