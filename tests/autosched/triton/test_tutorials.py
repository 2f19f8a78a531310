"""The algorithms of Triton's tutorials are correct and without findings, for GPUs of three generations."""

# mypy: ignore-errors
from __future__ import annotations

import math

import pytest
from needs import needs_compiler

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
triton = pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
import triton_tutorial_kernels as kernels  # noqa: E402

from autosched.triton import emulated  # noqa: E402
from measurements.emulator import FindingKind  # noqa: E402

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::UserWarning")]
DEVICES = [
    pytest.param("a100", marks=pytest.mark.nightly),
    "h100",
    pytest.param("rtx5090", marks=pytest.mark.nightly),
]


@pytest.fixture(params=DEVICES)
def session(request):
    torch.manual_seed(0)
    with emulated(request.param, check=False) as opened:
        yield opened
    faults = [f for f in opened.findings if f.is_fault]
    # Triton 3.4 and 3.6 let wgmma read threads' stores without the proxy fence that PTX requires.
    if tuple(map(int, triton.__version__.split(".")[:2])) < (3, 9):
        faults = [f for f in faults if f.kind is not FindingKind.MISSING_PROXY_FENCE]
    assert not faults, opened.fault_lines()
    assert opened.launches and not [line for line in opened.note_lines() if "last bits" not in line]


def half(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.float16)


def test_softmax_of_few_blocks_for_many_rows(session):
    x = torch.randn(37, 300, device="cuda")
    o = torch.empty_like(x)
    kernels.softmax_rows[(5,)](o, x, o.stride(0), x.stride(0), *x.shape, BLOCK=512, STAGES=3)
    torch.testing.assert_close(o, torch.softmax(x, dim=1))


@pytest.mark.parametrize("leaky", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_matmul_in_bands(session, leaky):
    m, n, k = 200, 136, 72
    a, b, c = half(m, k), half(k, n), half(m, n).fill_(7)
    grid = lambda meta: (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)  # noqa: E731
    kernels.matmul[grid](a, b, c, m, n, k, k, n, n, BM=64, BN=64, BK=32, GROUP=2, LEAKY=leaky)
    expected = a.float() @ b.float()
    expected = torch.nn.functional.leaky_relu(expected) if leaky else expected
    torch.testing.assert_close(c.float(), expected, atol=0.03, rtol=3e-3)


def test_layer_norm(session):
    x, w, b = torch.randn(6, 300, device="cuda"), torch.rand(300, device="cuda"), torch.rand(300, device="cuda")
    y, mean, rstd = torch.empty_like(x), torch.empty(6, device="cuda"), torch.empty(6, device="cuda")
    kernels.layer_norm[(6,)](y, x, w, b, mean, rstd, x.stride(0), 300, 1e-5, BLOCK=128, num_warps=4)
    torch.testing.assert_close(y, torch.nn.functional.layer_norm(x, (300,), w, b, 1e-5))


def test_gradients_of_layer_norm_by_partial_sums(session):
    x, w, b = (torch.randn(*shape, device="cuda").requires_grad_() for shape in ((7, 300), (300,), (300,)))
    dy = torch.randn(7, 300, device="cuda")
    torch.nn.functional.layer_norm(x, (300,), w, b, 1e-5).backward(dy)
    values, mean = x.detach(), x.detach().mean(1)
    rstd = 1 / torch.sqrt(values.var(1, correction=0) + 1e-5)
    dx, (parts_w, parts_b) = torch.empty_like(values), (torch.empty(3, 300, device="cuda") for _ in range(2))
    kernels.layer_norm_slopes[(3,)](
        dx, parts_w, parts_b, dy, values, w.detach(), mean, rstd, 300, 7, 300, ROWS=3, BLOCK=512, num_warps=4
    )
    torch.testing.assert_close(dx, x.grad)
    for parts, expected in ((parts_w, w.grad), (parts_b, b.grad)):
        total = torch.empty(300, device="cuda")
        kernels.sum_of_lines[(3,)](total, parts, 3, 300, BLOCK=128, num_warps=4)
        torch.testing.assert_close(total, expected)


@pytest.mark.parametrize("causal", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_attention(session, causal):
    heads, length, head = 2, 100, 64
    q, k, v = (half(heads, length, head) for _ in range(3))
    o = torch.empty_like(q)
    kernels.attention[(triton.cdiv(length, 64), heads)](
        q, k, v, o, 1 / math.sqrt(head), length, HEAD=head, BM=64, BN=32, CAUSAL=causal, num_warps=4
    )
    expected = torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=causal)
    torch.testing.assert_close(o.float(), expected, atol=5e-3, rtol=5e-3)


@pytest.mark.nightly
def test_grouped_matmul(session):
    sizes = [(40, 70, 32), (64, 64, 100), (130, 33, 17)]
    a, b, c = [half(m, k) for m, _, k in sizes], [half(k, n) for _, n, k in sizes], [half(m, n) for m, n, _ in sizes]
    addresses = [torch.tensor([t.data_ptr() for t in tensors], device="cuda") for tensors in (a, b, c)]
    described = torch.tensor(sizes, dtype=torch.int32, device="cuda")
    kernels.grouped_matmul[(4,)](*addresses, described, len(sizes), BLOCKS=4, BM=32, BN=32, BK=32)
    for x, y, z in zip(a, b, c, strict=True):
        torch.testing.assert_close(z.float(), x.float() @ y.float(), atol=0.03, rtol=3e-3)


@pytest.mark.nightly
def test_persistent_matmul_by_descriptors(session):
    from triton.tools.tensor_descriptor import TensorDescriptor

    m, n, k, bm, bn, bk = 200, 136, 72, 64, 64, 64
    a, b, c = half(m, k), half(n, k), half(m, n)
    described = [TensorDescriptor.from_tensor(t, box) for t, box in ((a, [bm, bk]), (b, [bn, bk]), (c, [bm, bn]))]
    kernels.persistent_matmul[(5,)](*described, m, n, k, BM=bm, BN=bn, BK=bk, GROUP=2, FLATTEN=False, num_stages=3)
    torch.testing.assert_close(c.float(), a.float() @ b.float().t(), atol=0.03, rtol=3e-3)


@pytest.mark.nightly
@pytest.mark.parametrize("device", ["h100", "rtx5090"])
def test_block_scaled_matmul(device):
    """sm_120 multiplies block-scaled operands. For Hopper, Triton first applies the scales. sm_80 lacks e4m3."""
    m, n, k = 128, 64, 128
    a, b = (torch.randn(*shape).to(torch.float8_e4m3fn) for shape in ((m, k), (k, n)))
    scales = [torch.randint(124, 131, (rows, k // 32), dtype=torch.uint8) for rows in (m, n)]
    with emulated(device) as session:
        c = torch.empty(m, n, device="cuda")
        kernels.block_scaled_matmul[(1, 1)](a, scales[0], b, scales[1], c, m, n, k, BM=128, BN=64, BK=128)
    assert (".block_scale." in session.launches[0].ptx) == (device == "rtx5090")
    powers = [2.0 ** (s.float() - 127).repeat_interleave(32, dim=1) for s in scales]
    expected = (a.float() * powers[0]) @ (b.float() * powers[1].t())
    torch.testing.assert_close(c, expected, atol=0.05 * expected.abs().max().item(), rtol=0.02)
