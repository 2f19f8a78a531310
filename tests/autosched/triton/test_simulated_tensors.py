"""Tensors report the simulated GPU also below torch's dispatcher: in custom operators, backward passes and threads."""

# mypy: ignore-errors
from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
from needs import needs_compiler

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
import triton_program_kernels as kernels  # noqa: E402

from autosched.triton import emulated  # noqa: E402
from measurements.emulator import FindingKind  # noqa: E402

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::UserWarning")]
SEEN = []


def twice(x):
    SEEN.append((str(x.device), x.is_cuda, x.is_cpu, x.device.index, x.get_device()))
    scratch = torch.zeros(x.shape, device="cuda:0")
    y = torch.empty_like(x)
    kernels.scale[(1,)](y, x + scratch, 2.0, x.numel(), BLOCK=128)
    return y


@torch.library.custom_op("autosched_tests::twice", mutates_args=())
def custom_op(x: torch.Tensor) -> torch.Tensor:
    return twice(x)


@torch.library.custom_op("autosched_tests::twice_on_cuda", mutates_args=(), device_types="cuda")
def custom_op_for_cuda(x: torch.Tensor) -> torch.Tensor:
    return twice(x)


@cache  # defined on the first call, since the decorator imports torch._dynamo, which takes over a second
def triton_op():
    @torch.library.triton_op("autosched_tests::twice_by_triton", mutates_args={})
    def operator(x: torch.Tensor) -> torch.Tensor:
        return twice(x)

    return operator


@torch.library.custom_op("autosched_tests::where", mutates_args=(), device_types="cpu")
def where(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(1)


@where.register_kernel("cuda")
def where_on_cuda(x):
    return torch.ones(1, device="cuda")


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return twice(x)

    @staticmethod
    def backward(ctx, gradient):
        return twice(gradient.contiguous())


LIBRARY = torch.library.Library("autosched_tests_library", "DEF")
LIBRARY.define("twice(Tensor x) -> Tensor")
LIBRARY.impl("twice", twice, "CUDA")


@pytest.fixture
def session():
    SEEN.clear()
    with emulated("h100", check=False) as opened:
        yield opened


@pytest.mark.parametrize(
    "call",
    [
        twice,
        custom_op,
        custom_op_for_cuda,
        lambda x: triton_op()(x),
        lambda x: torch.ops.autosched_tests_library.twice(x),
        Twice.apply,
    ],
    ids=["plain", "custom_op", "custom_op for cuda", "triton_op", "Library.impl", "autograd"],
)
def test_operators_of_a_program(session, call) -> None:
    x = torch.arange(100.0, device="cuda")
    y = call(x)
    assert y.is_cuda and torch.equal(y, 2 * x) and not session.findings
    assert SEEN == [("cuda:0", True, False, 0, 0)] and len(session.launches) == 1


def test_backward(session) -> None:
    x = torch.ones(100, device="cuda", requires_grad=True)
    (3 * Twice.apply(x)).sum().backward()
    assert x.grad.is_cuda and x.grad.eq(6).all()
    assert SEEN == [("cuda:0", True, False, 0, 0)] * 2 and len(session.launches) == 2


class Constant(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * torch.tensor(2.0, device=gradient.device)


def test_a_backward_of_a_program_makes_tensors_on_the_device(session) -> None:
    x = torch.ones(100, device="cuda", requires_grad=True)
    Constant.apply(x).backward(torch.ones(100, device="cuda"))
    assert x.grad.is_cuda and x.grad.eq(2).all()
    (gradient,) = torch.autograd.grad(Constant.apply(x).sum(), [x])
    assert gradient.is_cuda and gradient.eq(2).all()


GRADIENTS = {
    "copied": lambda x: x.sum(),
    "strided": lambda x: torch.einsum("ij,kj->ik", x, x),
    "kept": lambda x: 2 * x,
    "missing": lambda x: x.unbind()[1],
}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("kind", GRADIENTS)
def test_gradients_are_on_the_device_of_their_tensor(session, kind: str, device: str) -> None:
    """Autograd allocates gradients on the tensor's real device, the CPU. They must still report the simulated GPU."""
    x = torch.ones(4, 4, device=device, requires_grad=True)
    y = GRADIENTS[kind](x)
    y.backward(torch.ones_like(y))
    assert (x.grad.device.type, (x.grad * 2).device.type) == (device, device)


def test_operators_may_return_uninitialised_memory(session) -> None:
    """Memory that an operator allocates counts as unwritten."""

    @torch.library.custom_op("autosched_tests::half", mutates_args=())
    def half(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        y[:50] = x[:50]
        return y

    y = half(torch.ones(100, device="cuda"))
    kernels.scale[(1,)](torch.empty_like(y), y, 2.0, 100, BLOCK=128)
    assert {f.kind for f in session.findings} == {FindingKind.UNINITIALIZED_GLOBAL_READ}


def test_the_kernel_of_the_tensors_device_is_called(session) -> None:
    assert where(torch.ones(3)).item() == 0 and where(torch.ones(3, device="cuda")).item() == 1
    with pytest.raises(NotImplementedError):
        custom_op_for_cuda(torch.ones(3))


def test_threads(session) -> None:
    def run():
        x = torch.ones(100, device="cuda")
        return custom_op_for_cuda(x).sum().item(), torch.tensor([1.0], device="cuda").is_cuda, torch.zeros(1).is_cuda

    answers = []
    thread = threading.Thread(target=lambda: answers.append(run()))
    thread.start()
    thread.join()
    with ThreadPoolExecutor(1) as pool:
        answers.append(pool.submit(run).result())
    assert answers == [(200.0, True, False)] * 2 and len(session.launches) == 2


def test_sparse_tensors(session) -> None:
    x = torch.eye(4, device="cuda").to_sparse_csr()
    values = x.values()
    assert x.is_cuda and values.is_cuda and x.to_dense().is_cuda and x.to_sparse_coo().coalesce().indices().is_cuda
    kernels.scale[(1,)](values, values, 3.0, values.numel(), BLOCK=32)
    assert torch.equal(x.to_dense(), 3 * torch.eye(4, device="cuda")) and session.ok


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(32),
        lambda: torch.ones(32, device="cpu") * 2,
        lambda: torch.ones(32, device="cuda").cpu(),
        lambda: torch.from_numpy(np.ones(32, np.float32)),
        lambda: torch.tensor([1.0] * 32),
        lambda: torch.ones(64, device="cuda").to("cpu")[::2],
    ],
)
def test_a_tensor_on_the_host_is_rejected(session, make) -> None:
    x = make()
    assert x.device == torch.device("cpu") and not x.is_cuda and x.get_device() == -1
    with pytest.raises(ValueError, match="cpu tensor"):
        kernels.scale[(1,)](torch.empty(32, device="cuda"), x, 2.0, 32, BLOCK=32)
    for moved in (x.cuda(), x.to("cuda"), x.to(0), x.pin_memory(), torch.ones(32, device="cuda") + x):
        kernels.scale[(1,)](torch.empty(32, device="cuda"), moved, 2.0, 32, BLOCK=32)
    assert session.ok and len(session.launches) == 5


def test_modules_move(session) -> None:
    model = torch.nn.Linear(4, 3)
    assert not model.weight.is_cuda
    model.cuda()
    assert model.weight.is_cuda and model(torch.ones(2, 4, device="cuda")).is_cuda
    assert not model.to("cpu").weight.is_cuda


def test_initial_queries_of_scripts_are_answered(session) -> None:
    assert torch.version.cuda >= "12.4" and torch.cuda.current_device() == 0
    x = torch.tensor([1, 2, 2, 3], device="cuda")
    assert torch.histc(x, bins=3, min=1, max=3).tolist() == [1, 2, 1] and torch.histc(x, 3).dtype is torch.int64
    with torch.device("cuda"):
        assert torch.ones(3).is_cuda
    assert not torch.ones(3).is_cuda
