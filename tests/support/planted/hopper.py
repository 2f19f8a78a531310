"""The small Hopper matmuls of the emulator's tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import Array
from search_spaces.hardware.dtypes import SCALAR_DTYPES
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import ScalarArgument
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import TensorMap

_KERNELS = Path(__file__).parents[2] / "measurements" / "emulator" / "kernels"
SOURCE, CLUSTER_SOURCE = _KERNELS / "hopper_matmul.cu", _KERNELS / "hopper_cluster.cu"
BF16, F32, I32 = (SCALAR_DTYPES[name] for name in ("bf16", "f32", "i32"))
Floats = npt.NDArray[np.float32]


def matmul(m: int, n: int, k: int, source: str | None = None) -> GeneratedKernel:
    """Return a kernel of C = A @ B.T for bf16 matrices A (m, k) and B (n, k)."""
    a, b = Operand("a", "input", BF16, (m, k)), Operand("b", "input", BF16, (n, k))
    return GeneratedKernel(
        entry="hopper_matmul",
        source=SOURCE.read_text() if source is None else source,
        arguments=(
            TensorMap.dense("map_a", a, (64, 64), swizzle="128B"),
            TensorMap.dense("map_b", b, (64, 64), swizzle="128B"),
            Operand("c", "output", F32, (m, n)),
            *(ScalarArgument(name, I32, value) for name, value in (("m", m), ("n", n), ("k", k))),
        ),
        grid=(-(-n // 64), -(-m // 64), 1),
        block=(160, 1, 1),
        dynamic_shared_bytes=2 * 16384,
    )


def clustered(m: int, n: int, k: int, source: str | None = None) -> GeneratedKernel:
    """Return the kernel of ``matmul``, but with clusters of two blocks, which store C by TMA."""
    a, b = Operand("a", "input", BF16, (m, k)), Operand("b", "input", BF16, (n, k))
    return GeneratedKernel(
        entry="hopper_matmul",
        source=CLUSTER_SOURCE.read_text() if source is None else source,
        arguments=(
            TensorMap.dense("map_a", a, (32, 64), swizzle="128B"),
            TensorMap.dense("map_b", b, (64, 64), swizzle="128B"),
            TensorMap.dense("map_c", Operand("c", "output", F32, (m, n)), (64, 64)),
            *(ScalarArgument(name, I32, value) for name, value in (("m", m), ("n", n), ("k", k))),
        ),
        grid=(-(-n // 128) * 2, -(-m // 64), 1),
        block=(256, 1, 1),
        cluster=(2, 1, 1),
        dynamic_shared_bytes=2 * 16384 + 16384,
    )


def operands(m: int, n: int, k: int) -> tuple[Floats, Floats]:
    """Return random matrices of small integers, whose sums are exact."""
    rng = np.random.default_rng(0)
    return rng.integers(-3, 4, (m, k)).astype(np.float32), rng.integers(-3, 4, (n, k)).astype(np.float32)


def inputs(a: Floats, b: Floats) -> Mapping[str, Array]:
    return {"a": BF16.store(a), "b": BF16.store(b)}
