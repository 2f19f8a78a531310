"""Triton's kernels are compiled for sm_80 and sm_90 without a GPU and emulated: right numbers, no findings."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest
from needs import needs_compiler

import autosched
from measurements.emulator import FindingKind, emulate_ptx

triton = pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
import triton_kernels  # noqa: E402

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::UserWarning")]

RNG = np.random.default_rng(0)


def test_softmax() -> None:
    x = RNG.standard_normal((5, 200), dtype=np.float32)
    compiled = triton_kernels.compiled("softmax", {"o": "*fp32", "x": "*fp32", "n": "i32"}, {"BLOCK": 256})
    result = autosched.emulate(compiled, arguments=(np.zeros_like(x), x, 200), grid=5, outputs=(0,))
    assert result.ok, result.reason
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(result.arrays[0], e / e.sum(1, keepdims=True), rtol=1e-5)


def test_layer_norm() -> None:
    x = RNG.standard_normal((5, 200)).astype(np.float16)
    w, b = RNG.standard_normal((2, 200)).astype(np.float32)
    signature = {"o": "*fp16", "x": "*fp16", "w": "*fp32", "b": "*fp32", "n": "i32", "eps": "fp32"}
    compiled = triton_kernels.compiled("layer_norm", signature, {"BLOCK": 256})
    result = autosched.emulate(compiled, arguments=(np.zeros_like(x), x, w, b, 200, 1e-5), grid=5, outputs=(0,))
    assert result.ok, result.reason
    f = x.astype(np.float64)
    expected = (f - f.mean(1, keepdims=True)) / np.sqrt(f.var(1, keepdims=True) + 1e-5) * w + b
    np.testing.assert_allclose(result.arrays[0], expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(("sm", "stages", "instruction"), [(80, 1, "mma.sync"), (80, 3, "mma.sync"), (90, 3, "wgmma")])
def test_matmul(sm: int, stages: int, instruction: str) -> None:
    a = RNG.standard_normal((80, 112)).astype(np.float16)
    b = RNG.standard_normal((112, 96)).astype(np.float16)
    signature = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "M": "i32", "N": "i32", "K": "i32"}
    blocks = {"BM": 64, "BN": 64, "BK": 32}
    compiled = triton_kernels.compiled("matmul", signature, blocks, 6, sm, num_warps=4, num_stages=stages)
    assert instruction in compiled.asm["ptx"]
    c = np.zeros((80, 96), np.float16)
    result = autosched.emulate(compiled, arguments=(a, b, c, 80, 96, 112), grid=(2, 2), outputs=(2,))
    assert result.ok, result.reason
    np.testing.assert_allclose(result.arrays[2], a.astype(np.float64) @ b.astype(np.float64), rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("stages", [1, 3])
def test_matmul_by_tensor_descriptors(stages: int) -> None:
    m, n, k = 80, 96, 112
    kinds = dict.fromkeys("abc", "tensordesc<fp16[64, 64]>")
    blocks = {"BM": 64, "BN": 64, "BK": 64}
    compiled = triton_kernels.compiled(
        "matmul_by_descriptors", {**kinds, "K": "i32"}, blocks, sm=90, num_warps=4, num_stages=stages
    )
    text = compiled.asm["ptx"]
    assert "wgmma.mma_async" in text and "cp.async.bulk.tensor" in text
    launch = triton_kernels.launch_by_descriptors(compiled, m, n, k)
    a, b = RNG.standard_normal((m, k)).astype(np.float16), RNG.standard_normal((k, n)).astype(np.float16)
    emulation = emulate_ptx(text, launch, {"a": a, "b": b}, time_limit=60)
    assert emulation.ok, emulation.reason
    np.testing.assert_allclose(
        emulation.outputs["c"], a.astype(np.float64) @ b.astype(np.float64), rtol=2e-3, atol=2e-2
    )


def test_matmul_by_descriptors_made_on_the_device() -> None:
    m, n, k = 80, 96, 112
    signature = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "M": "i32", "N": "i32", "K": "i32"}
    compiled = triton_kernels.compiled(
        "matmul_by_made_descriptors", signature, {"BM": 64, "BN": 64, "BK": 64}, 6, 90, num_warps=4, num_stages=3
    )
    text = compiled.asm["ptx"]
    assert all(name in text for name in ("wgmma.mma_async", "tensormap.replace", "tensormap.cp_fenceproxy"))
    a, b = RNG.standard_normal((m, k)).astype(np.float16), RNG.standard_normal((k, n)).astype(np.float16)
    result = autosched.emulate(
        compiled, arguments=(a, b, np.zeros((m, n), np.float16), m, n, k), grid=(2, 2), outputs=(2,)
    )
    assert result.ok, result.reason
    np.testing.assert_allclose(result.arrays[2], a.astype(np.float64) @ b.astype(np.float64), rtol=2e-3, atol=2e-2)


@functools.cache
def doubling() -> tuple[str, int, int]:
    """Compile a kernel that makes tensor descriptors. Return its PTX, shared bytes, and scratch bytes per block."""
    signature = {"o": "*fp32", "x": "*fp32", "M": "i32", "N": "i32"}
    compiled = triton_kernels.compiled("copy_by_made_descriptors", signature, {"BM": 16, "BN": 32}, 4, 90, num_warps=4)
    return compiled.asm["ptx"], compiled.metadata.shared, compiled.metadata.global_scratch_size


def run_doubling(text: str) -> autosched.EmulatedLaunch:
    _, shared, scratch = doubling()
    x = np.arange(40 * 28, dtype=np.float32).reshape(40, 28)
    arguments = (np.zeros_like(x), x, 40, 28, np.zeros(scratch, np.uint8))
    result = autosched.emulate(text, arguments=arguments, grid=1, block=128, shared_bytes=shared, outputs=(0,))
    assert not result.ok or np.array_equal(result.arrays[0], 2 * x)  # type: ignore[arg-type]
    return result


def test_copy_by_descriptors_made_on_the_device() -> None:
    result = run_doubling(doubling()[0])
    assert result.ok, result.reason


LINE = "(?m)^.*{}.*$"  # pattern of a whole line that contains {}


@pytest.mark.parametrize(
    ("old", "new", "kind", "message"),
    [
        (LINE.format("acquire.gpu"), "", "missing_proxy_fence", "generic.acquire"),
        (LINE.format("st.shared::cta.b32"), "", "uninitialized_shared_read", ""),
        (LINE.format("bar.warp.sync"), "", "shared_race", ""),
        (LINE.format("element_stride"), "", "invalid_argument", "element_stride 0 (of 2 dimensions)"),
        (LINE.format("global_stride"), "", "invalid_argument", "global_stride 0 (of 2 dimensions)"),
        (LINE.format("elemtype"), "", "barrier_not_reached", "1536 bytes are missing"),
        (LINE.format("tile.rank"), "", "invalid_argument", "tensor map of 1 dimensions"),
        (r"(tile\.rank.*) 0x1", r"\1 0x2", "invalid_argument", "global_stride 1 (of 3 dimensions) was never set"),
        (r"(swizzle_mode.*) 0x3", r"\1 0x1", "invalid_argument", "32 bytes of its swizzle_mode"),
    ],
)
def test_faults_of_descriptors_made_on_the_device(old: str, new: str, kind: str, message: str) -> None:
    text, changed = re.subn(old, new, doubling()[0])
    assert changed
    result = run_doubling(text)
    assert any(f.kind == FindingKind(kind) and message in f.message for f in result.findings), result.reason


def test_threads_with_copies_of_overwritten_values_are_no_race() -> None:
    q = RNG.standard_normal((3, 32)).astype(np.float32)
    angle = RNG.standard_normal(16)
    c, s = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    signature = {"q": "*fp32", "cosine": "*fp32", "sine": "*fp32"}
    compiled = triton_kernels.compiled("rope_in_place", signature, {"HALF": 16}, num_warps=4)
    result = autosched.emulate(compiled, arguments=(q, c, s), grid=3)
    assert result.ok, result.reason
    x, y = q[:, :16], q[:, 16:]
    np.testing.assert_allclose(result.arrays[0], np.hstack((x * c - y * s, y * c + x * s)), rtol=1e-5, atol=1e-6)


def test_sums_of_copies_may_differ_in_their_last_bits() -> None:
    x = RNG.standard_normal((5, 60), dtype=np.float32)
    compiled = triton_kernels.compiled(
        "rms_norm", {"o": "*fp32", "x": "*fp32", "n": "i32", "eps": "fp32"}, {"BLOCK": 64}, num_warps=4
    )
    result = autosched.emulate(compiled, arguments=(np.zeros_like(x), x, 60, 1e-5), grid=5, outputs=(0,))
    assert result.ok, result.reason
    expected = x / np.sqrt(np.square(x.astype(np.float64)).mean(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(result.arrays[0], expected, rtol=1e-5)


def test_programs_wait_for_later_ones_in_a_loop_with_barriers() -> None:
    compiled = triton_kernels.compiled("in_turns", {"lock": "*i32", "o": "*i32"}, {})
    result = autosched.emulate(
        compiled, arguments=(np.zeros(1, np.int32), np.zeros(6, np.int32)), grid=6, outputs=(1,), time_limit=20
    )
    assert result.ok, result.reason
    assert result.arrays[1].tolist() == [5, 4, 3, 2, 1, 0] and result.arrays[0].tolist() == [6]
