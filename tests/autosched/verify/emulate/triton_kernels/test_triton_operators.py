"""Various Triton kernels for several GPUs are emulated: right numbers, no findings. Planted faults are found."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from needs import needs_compiler

import autosched
from autosched.verify.emulate.emulated_launch import EmulatedLaunch
from search_spaces.hardware.dtypes import SCALAR_DTYPES

pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
import triton_kernels
import triton_operators

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::UserWarning")]

Matrix = npt.NDArray[Any]
RNG = np.random.default_rng(3)
POINTERS = {
    np.dtype(np.float16): "*fp16", np.dtype(np.float32): "*fp32", np.dtype(np.float64): "*fp64",
    np.dtype(np.int32): "*i32", np.dtype(np.int8): "*i8", np.dtype(np.uint8): "*fp8e5",
}  # fmt: skip


def launch(
    name: str,
    arguments: dict[str, Any],
    constants: dict[str, Any],
    grid: Any,
    outputs: tuple[str, ...] = (),
    sm: int = 80,
) -> EmulatedLaunch:
    def kind(value: Any) -> str:
        return POINTERS[value.dtype] if isinstance(value, np.ndarray) else "fp32" if isinstance(value, float) else "i32"

    signature = {k: kind(v) for k, v in arguments.items()}
    arrays = sum(isinstance(value, np.ndarray) for value in arguments.values())  # arrays come first among the arguments
    compiled = triton_kernels.compiled(getattr(triton_operators, name), signature, constants, arrays, sm)
    at = tuple(list(arguments).index(o) for o in outputs)
    return autosched.emulate(compiled, arguments=tuple(arguments.values()), grid=grid, outputs=at)


def softmax(x: Matrix) -> Matrix:
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("sm", [80, 90, 100])
def test_softmax_in_steps(sm: int) -> None:
    x = RNG.standard_normal((3, 208), dtype=np.float32)
    emulation = launch("online_softmax", {"X": x, "O": np.zeros_like(x), "n": 208}, {"BLOCK": 64}, 3, ("O",), sm)
    assert emulation.ok, emulation.reason
    np.testing.assert_allclose(emulation.arrays[1], softmax(x), rtol=1e-4)


def test_histogram() -> None:
    x = RNG.integers(0, 64, 1024).astype(np.int32)
    emulation = launch("histogram", {"X": x, "O": np.zeros(64, np.int32)}, {"BLOCK": 512, "BINS": 64}, 2)
    assert emulation.ok, emulation.reason
    np.testing.assert_array_equal(emulation.arrays[1], np.bincount(x, minlength=64))


@pytest.mark.parametrize("count", [32, 256, 512])
def test_conversion_to_e5m2(count: int) -> None:
    """On sm_80, four numbers are converted at a time. Threads with fewer elements leave registers unwritten."""
    x = RNG.standard_normal(count).astype(np.float32)
    emulation = launch("to_bytes", {"X": x, "BYTES": np.zeros(count, np.uint8)}, {"BLOCK": count}, 1, ("BYTES",))
    assert emulation.ok, emulation.reason
    np.testing.assert_array_equal(emulation.arrays[1], np.asarray(SCALAR_DTYPES["e5m2"].store(x)).view(np.uint8))


@pytest.mark.nightly
def test_sort_scan_and_flip() -> None:
    x = RNG.integers(-999, 999, (4, 256)).astype(np.int32)
    arguments = {"X": x, "SORTED": np.zeros_like(x), "SUMS": np.zeros_like(x), "BACKWARDS": np.zeros_like(x)}
    emulation = launch("rows_in_order", arguments, {"ROWS": 4, "BLOCK": 256}, 1, ("SORTED", "SUMS", "BACKWARDS"))
    assert emulation.ok, emulation.reason
    for actual, expected in zip(emulation.arrays[1:], (np.sort(x, 1), np.cumsum(x, 1), x[:, ::-1]), strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("kind", "out", "precision", "split", "sm", "tolerance"),
    [
        (np.float32, np.float32, "tf32", 1, 80, 0.05),
        pytest.param(np.float32, np.float32, "tf32x3", 1, 80, 1e-4, marks=pytest.mark.nightly),
        pytest.param(np.float32, np.float32, "ieee", 1, 80, 1e-4, marks=pytest.mark.nightly),
        pytest.param(np.float32, np.float32, "tf32", 1, 90, 0.05, marks=pytest.mark.nightly),
        pytest.param(np.float16, np.float32, "tf32", 2, 80, 1e-3, marks=pytest.mark.nightly),
        pytest.param(np.float16, np.float16, "tf32", 1, 80, 0.05, marks=pytest.mark.nightly),
        pytest.param(np.int8, np.int32, "tf32", 1, 80, 0, marks=pytest.mark.nightly),
        pytest.param(np.int8, np.int32, "tf32", 1, 90, 0, marks=pytest.mark.nightly),
        pytest.param(np.float64, np.float64, "ieee", 1, 80, 1e-10, marks=pytest.mark.nightly),
    ],
)
def test_products(kind: Any, out: Any, precision: str, split: int, sm: int, tolerance: float) -> None:
    m, n, k = 80, 64, 128
    if kind == np.int8:
        a, b = (RNG.integers(-100, 100, shape).astype(kind) for shape in ((m, k), (k, n)))
    else:
        a, b = (RNG.standard_normal(shape).astype(kind) for shape in ((m, k), (k, n)))
    arguments = {"A": a, "B": b, "C": np.zeros((m, n), out), "M": m, "N": n, "K": k}
    constants = {"BM": 64, "BN": 32, "BK": 32, "PRECISION": precision, "SPLIT": split}
    emulation = launch("product", arguments, constants, (2, 2, split), ("C",) if split == 1 else (), sm)
    assert emulation.ok, emulation.reason
    expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(emulation.arrays[2], expected, rtol=tolerance, atol=tolerance)


def attention(fault: str = "", sm: int = 80) -> tuple[EmulatedLaunch, bool]:
    """Emulate attention. Return the launch, and whether the launch's results are correct."""
    heads, t, d = 2, 80, 32
    q, k, v = (RNG.standard_normal((heads, t, d)).astype(np.float16) for _ in range(3))
    arguments = {
        "Q": q,
        "K": k,
        "V": v,
        "O": np.zeros_like(q),
        "L": np.zeros((heads, t), np.float32),
        "T": t,
        "scale": 0.2,
    }
    emulation = launch("attention", arguments, {"BM": 64, "BN": 32, "D": d, "FAULT": fault}, (2, heads), ("O", "L"), sm)
    scores = np.einsum("hmd,hnd->hmn", q.astype(np.float64), k.astype(np.float64)) * 0.2
    expected = softmax(np.where(np.tril(np.ones((t, t), bool)), scores, -1e9)) @ v.astype(np.float64)
    return emulation, emulation.arrays[3] is not None and np.allclose(
        emulation.arrays[3], expected, rtol=1e-2, atol=1e-2
    )


@pytest.mark.nightly
@pytest.mark.parametrize("sm", [80, 90])
def test_attention(sm: int) -> None:
    emulation, is_right = attention(sm=sm)
    assert emulation.ok and is_right, emulation.reason


@pytest.mark.nightly
@pytest.mark.parametrize("fault", ["sees the next", "maximum of the tile", "sums not rescaled", "rows beyond the end"])
def test_faults_of_attention(fault: str) -> None:
    emulation, is_right = attention(fault)
    assert not (emulation.ok and is_right)


@pytest.mark.nightly
@pytest.mark.parametrize(("fault", "sm"), [("", 80), ("", 90), ("plain sum", 80)])
def test_gradients_of_attention(fault: str, sm: int) -> None:
    heads, t, d, scale = 2, 64, 32, 0.2
    q, k, v, do = (RNG.standard_normal((heads, t, d)).astype(np.float16) for _ in range(4))
    f = {name: x.astype(np.float64) for name, x in (("q", q), ("k", k), ("v", v), ("do", do))}
    scores = np.einsum("hmd,hnd->hmn", f["q"], f["k"]) * scale
    p = softmax(scores)
    delta = (p @ f["v"] * f["do"]).sum(-1)
    ds = p * (np.einsum("hmd,hnd->hmn", f["do"], f["v"]) - delta[..., None]) * scale
    logs = np.log(np.exp(scores).sum(-1))
    gradients = {name: np.zeros(q.shape, np.float32) for name in ("DQ", "DK", "DV")}
    arguments = {
        "Q": q, "K": k, "V": v, "DO": do, "L": logs.astype(np.float32), "DE": delta.astype(np.float32),
        **gradients, "T": t, "scale": scale,
    }  # fmt: skip
    constants = {"BM": 32, "BN": 32, "D": d, "FAULT": fault}
    emulation = launch("attention_backward", arguments, constants, (2, heads), ("DK", "DV"), sm)
    if fault:
        assert "global_race" in {str(f.kind) for f in emulation.findings}
        return
    assert emulation.ok, emulation.reason
    swapped = np.swapaxes(ds, 1, 2), np.swapaxes(p, 1, 2)
    for actual, expected in zip(
        emulation.arrays[6:9], (ds @ f["k"], swapped[0] @ f["q"], swapped[1] @ f["do"]), strict=True
    ):
        np.testing.assert_allclose(actual, expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("fault", ["", "no lock", pytest.param("relaxed release", marks=pytest.mark.nightly)])
def test_gradients_under_a_lock(fault: str) -> None:
    rows, n = 6, 200
    x, dy = RNG.standard_normal((2, rows, n)).astype(np.float32)
    arguments = {"DW": np.zeros((2, n), np.float32), "DY": dy, "X": x, "LOCK": np.zeros(2, np.int32), "N": n}
    emulation = launch("weight_gradient", arguments, {"GROUPS": 2, "BLOCK": 256, "FAULT": fault}, rows, ())
    if fault:
        assert "global_race" in {str(f.kind) for f in emulation.findings}, emulation.reason
        return
    assert emulation.ok, emulation.reason
    np.testing.assert_allclose(emulation.arrays[0], (x * dy).reshape(3, 2, n).sum(0), atol=1e-4)


@pytest.mark.nightly
def test_groups_of_several_sizes() -> None:
    sizes, first, n, k = np.array([40, 0, 70], np.int32), np.array([0, 40, 40], np.int32), 48, 64
    a, b = RNG.standard_normal((110, k)).astype(np.float16), RNG.standard_normal((3, k, n)).astype(np.float16)
    arguments = {
        "A": a,
        "B": b,
        "C": np.zeros((110, n), np.float16),
        "SIZES": sizes,
        "FIRST": first,
        "N": n,
        "K": k,
        "G": 3,
    }
    emulation = launch("grouped_matmul", arguments, {"BM": 32, "BN": 32, "BK": 32}, 3, ("C",))
    assert emulation.ok, emulation.reason
    groups = [a[s : s + m].astype(np.float64) @ b[g] for g, (s, m) in enumerate(zip(first, sizes, strict=True))]
    np.testing.assert_allclose(emulation.arrays[2], np.concatenate(groups), rtol=1e-2, atol=3e-2)
