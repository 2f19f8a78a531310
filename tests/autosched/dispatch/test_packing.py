"""Weights are packed for kernels, as arrays of each supported library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fake_cupy import FakeCupy

import autosched
from autosched.dispatch.generated import load_kernel
from autosched.dispatch.kernel import CubinKernel
from autosched.dispatch.packing import padded_lines
from autosched.dispatch.provenance import KernelProvenance, Kind
from measurements.runners.launch import LoadedLaunch
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.hardware.dtypes import F32
from search_spaces.launches.operand import Operand
from search_spaces.operators.matmul import Matmul
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


class TestPaddedLines:
    """Matmul kernels copy a misaligned ``b`` to padded lines in a first launch. A packed ``b`` needs no copy."""

    BOTH, ONLY_B = Matmul(75, 41, 133, a="f16"), Matmul(75, 41, 128, a="f16")

    @pytest.fixture
    def cupy(self, monkeypatch: pytest.MonkeyPatch) -> FakeCupy:
        """Return a simulated GPU on which a tensor map is simply the address of its array."""
        monkeypatch.setattr(LoadedLaunch, "_encoded_map", lambda self, described, address: np.array([address]))
        return FakeCupy()

    def kernel(self, cupy: FakeCupy, problem: Matmul, folder: Path) -> CubinKernel:
        gpu, kernel_template = device("rtx5090"), template("tma_matmul_padded")
        (schedule,) = kernel_template.space(problem, gpu).sample(1, seed=1)
        (folder / "f.cubin").write_bytes(b"program")
        source = KernelProvenance(Kind.EXACT, problem.key(), gpu.name, "best.db", schedule)
        return load_kernel(
            cupy, problem, kernel_template.kernel(problem, schedule, gpu), str(folder / "f.cubin"), source
        )

    @pytest.mark.parametrize(("problem", "entries"), [(BOTH, 2), (ONLY_B, 1)])
    def test_calls_skip_the_copy_of_packed_weights(
        self, cupy: FakeCupy, tmp_path: Path, problem: Matmul, entries: int
    ) -> None:
        kernel = self.kernel(cupy, problem, tmp_path)
        a, b = (cupy.zeros(shape, "float16") for shape in ((75, problem.k), (problem.k, 41)))
        kernel(a, b)
        plain = [launched.entry for launched in cupy.launches]
        w = np.arange(problem.k * 41, dtype=np.float16).reshape(problem.k, 41)
        packed = kernel.pack(w)
        assert packed.shape == (problem.k, 48) and np.array_equal(packed[:, :41], w) and not packed[:, 41:].any()
        lines = cupy.asarray(packed)
        assert kernel(a, lines).shape == kernel.bind(a, b=lines)().shape == (75, 41)
        calls = cupy.launches[2:]
        assert [launched.entry for launched in calls] == 2 * [*[f"{plain[0]}_of_a"][: entries - 1], plain[1]]
        maps = [p.item() for p in calls[entries - 1].parameters if isinstance(p, np.ndarray)]
        assert lines.data.ptr in maps and b.data.ptr not in maps

    def test_weights_of_another_shape_are_rejected(self, cupy: FakeCupy, tmp_path: Path) -> None:
        kernel = self.kernel(cupy, self.BOTH, tmp_path)
        for wrong in (np.zeros((133, 48), np.float16), np.zeros((41, 133), np.float16)):
            with pytest.raises(ValueError, match="b must have the shape"):
                kernel.pack(wrong)

    @pytest.mark.parametrize("kind", ["bfloat16", "float8_e4m3fn"])
    def test_tensors_keep_their_type(self, kind: str) -> None:
        torch = pytest.importorskip("torch")
        w = torch.arange(15).reshape(3, 5).to(getattr(torch, kind))
        packed = padded_lines(Operand("b", "input", F32, (3, 5)), Operand("b", "input", F32, (3, 16)), w)
        assert (packed.dtype, packed.shape) == (w.dtype, (3, 16))
        assert torch.equal(packed[:, :5].float(), w.float()) and not packed[:, 5:].float().any()
