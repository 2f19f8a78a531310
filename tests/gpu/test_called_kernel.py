"""Programs call kernels on a real GPU, with arrays of cupy and torch, on the current stream.

The kernels are compiled without a database, so that the tests need only cupy and NVRTC.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from kernels import generate, space_of

from autosched.dispatch.kernel import CubinKernel
from autosched.dispatch.provenance import KernelProvenance, Kind
from measurements.compiler.cubin_cache import Compiled
from measurements.compiler.pool import CompileCache, CompilePool
from measurements.runners.cuda.runner import cuda_available, cuda_device
from search_spaces.operators.matmul import Matmul

pytestmark = pytest.mark.gpu

PROBLEM = Matmul(m=96, n=80, k=512)
SEED = 3


@pytest.fixture(scope="module", autouse=True)
def gpu():
    here, why = cuda_available()
    if not here:
        pytest.skip(why)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    with CompilePool(CompileCache(tmp_path_factory.mktemp("cache"))) as p:
        yield p


def compiled_kernel(pool: CompilePool, problem: Matmul, template: str = "matmul", split: bool = False) -> Any:
    """Return the first sampled kernel of this template with split-k if ``split``, else without split-k."""
    import cupy

    device = cuda_device()
    some = (s for s in space_of(problem, device).sample(300, 1) if s.template == template)
    schedule = next((s for s in some if (s.integer("split_k") > 1) is split), None)
    if schedule is None:
        pytest.skip(f"{device.name} has no {template}")
    kernel = generate(problem, schedule, device)
    program = pool.submit(kernel, device.arch).result()
    assert isinstance(program, Compiled), program.reason
    launch = dataclasses.replace(kernel, entry=program.entry)
    provenance = KernelProvenance(Kind.EXACT, problem.key(), device.name, "", schedule)
    return CubinKernel(cupy, launch, str(program.path), provenance)


def assert_right(problem: Matmul, out: np.ndarray) -> None:
    inputs = problem.random_inputs(SEED)
    actual = problem.out_dtype.load(out)
    expected, allowed = problem.reference(inputs)["out"], problem.tolerance(inputs)["out"]
    assert actual.shape == expected.shape
    assert (np.abs(actual - expected) <= allowed).all(), float((np.abs(actual - expected) / allowed).max())


@pytest.mark.parametrize("template", ["matmul", "wgmma_matmul"])
@pytest.mark.parametrize("split", [False, True])
def test_a_kernel_is_called_with_cupy_arrays(pool, template, split):
    import cupy

    kernel = compiled_kernel(pool, PROBLEM, template, split)
    inputs = PROBLEM.random_inputs(SEED)
    a, b = cupy.asarray(inputs["a"]), cupy.asarray(inputs["b"])
    cupy.cuda.get_current_stream().synchronize()  # another stream does not wait for this stream's copies
    for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
        with stream:
            for _ in range(3):  # workspaces are restored
                assert_right(PROBLEM, cupy.asnumpy(kernel(a, b=b)))
            target = cupy.zeros((1, PROBLEM.m, PROBLEM.n), cupy.float16)
            assert kernel(a, b, out=target) is target
            assert_right(PROBLEM, cupy.asnumpy(target))
            bound = kernel.bind(a, b)
            bound.result.fill(0)
            assert_right(PROBLEM, cupy.asnumpy(bound()))
            assert kernel(a[0], b[0]).shape == (PROBLEM.m, PROBLEM.n)
        stream.synchronize()
    with pytest.raises(ValueError, match="must be an array on the GPU"):
        kernel(inputs["a"], b)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_a_kernel_is_called_with_torch_tensors(pool, dtype):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    problem = dataclasses.replace(PROBLEM, a=dtype, b=dtype, out=dtype)
    kernel = compiled_kernel(pool, problem)
    kind = torch.float16 if dtype == "f16" else torch.bfloat16
    inputs = problem.random_inputs(SEED)
    # numpy stores bf16 as its bits; torch accepts numpy's signed integers of any size
    a, b = (torch.from_numpy(inputs[name].view(np.int16)).cuda().view(kind) for name in ("a", "b"))
    torch.cuda.synchronize()  # another stream does not wait for this stream's copies
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            out = kernel(a, b)
        stream.synchronize()
        assert out.dtype is kind and out.is_cuda
        assert_right(problem, out.view(torch.int16).cpu().numpy().view(problem.out_dtype.storage))
