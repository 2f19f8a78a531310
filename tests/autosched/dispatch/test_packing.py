"""Weights packed for kernels, in the arrays of each library."""

from __future__ import annotations

import numpy as np
import pytest

import autosched
from search_spaces.tile_operators.quantized_matmul import QuantizedMatmul

PROBLEM = QuantizedMatmul(m=5, n=20, k=128, layout="fragments")


def words() -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.asarray(rng.integers(-(2**31), 2**31, (PROBLEM.n, PROBLEM.k // 8), dtype=np.int64).astype(np.int32))


def test_numpy_arrays() -> None:
    packed = autosched.pack_weights(words())
    assert np.array_equal(packed, PROBLEM.pack(words()))
    for wrong in (words()[0], words()[:, :5], words().astype(np.int16)):
        with pytest.raises(ValueError, match="weights must be"):
            autosched.pack_weights(wrong)


@pytest.mark.parametrize("kind", ["int32", "int8", "float8_e4m3fn"])
def test_tensors_keep_their_type(kind: str) -> None:
    torch = pytest.importorskip("torch")
    stored = torch.from_numpy(words())
    w = stored if kind == "int32" else stored.view(torch.int8).view(getattr(torch, kind))
    packed = autosched.pack_weights(w)
    assert (packed.dtype, packed.shape) == (w.dtype, (2, 16 * w.shape[1]))
    assert np.array_equal(
        np.sort(packed.view(torch.uint8).numpy()[0]), np.sort(w.view(torch.uint8).numpy()[:16], axis=None)
    )
