"""Nightly: for each feature of Triton and each architecture, one small kernel agrees with torch."""

# mypy: ignore-errors
from __future__ import annotations

import pytest
from needs import needs_compiler

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
triton = pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
import triton.language as tl  # noqa: E402
import triton_feature_kernels as kernels  # noqa: E402

from autosched.triton import emulated  # noqa: E402

pytestmark = [needs_compiler, pytest.mark.nightly, pytest.mark.filterwarnings("ignore::UserWarning")]
DEVICES = ["h100", "b200", "rtx5090", "a100", "t4"]


@pytest.fixture(params=DEVICES)
def session(request):
    torch.manual_seed(0)
    with emulated(request.param) as opened:  # on exit, raises if a fault was found
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
        yield opened


def close(a, b, **tolerance):
    torch.testing.assert_close(a.float(), b.float(), **({"atol": 1e-4, "rtol": 1e-4} | tolerance))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_elementwise(session, dtype) -> None:
    if dtype is torch.bfloat16 and session.device.sm < 80:
        pytest.skip("no bf16 below sm_80")
    x, y = torch.randn(300, device="cuda").to(dtype), torch.randn(300, device="cuda").to(dtype)
    o = torch.empty_like(x)
    kernels.elementwise[(3,)](x, y, o, 300, 128)
    a, b = x.double(), y.double()
    close(o, torch.where(a > b, a * b - a, a / (b.abs() + 1)), atol=0.05, rtol=0.02)


def test_functions(session) -> None:
    x = torch.rand(128, device="cuda")
    o = torch.empty_like(x)
    kernels.functions[(1,)](x, o, 128)
    close(o, x.exp() + (x + 1).log() + x.sin() * x.cos() + x.sqrt() + (x + 1).rsqrt() + x.sigmoid())


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_integers(session, dtype) -> None:
    x, y = (torch.randint(1, 20, (128,), device="cuda").to(dtype) for _ in range(2))
    o = torch.empty(128, dtype=torch.int64, device="cuda")
    kernels.integers[(1,)](x, y, o, 128)
    a, b = x.long(), y.long()
    assert torch.equal(o, (a // b) + (a % b) * 3 + ((a << 2) ^ (b >> 1)) + (a & b) - (a | b) + torch.minimum(a, b))


@pytest.mark.parametrize("num_warps", [1, 4, 8])
def test_reductions(session, num_warps) -> None:
    x, o = torch.randn(16, 32, device="cuda"), torch.empty(48, device="cuda")
    kernels.reductions[(1,)](x, o, 16, 32, num_warps=num_warps)
    close(o[:16], x.sum(1) + x.amax(1) - x.amin(1) + x.argmax(1))
    close(o[16:], x.sum(0))


def test_scans(session) -> None:
    x, o = torch.randn(128, device="cuda"), torch.empty(256, device="cuda")
    kernels.scans[(1,)](x, o, 128)
    close(o[:128], x.cumsum(0))
    close(o[128:], x.flip(0).cumsum(0).flip(0))


def test_shapes(session) -> None:
    x, o = torch.randn(16, 32, device="cuda"), torch.empty(32, 16, device="cuda")
    kernels.shapes[(1,)](x, o, 16, 32)
    halves = x.t().reshape(32, 8, 2)
    assert torch.equal(o, torch.stack((halves[..., 1], halves[..., 0]), -1).permute(0, 2, 1).reshape(32, 16))


def test_sorting_and_counting(session) -> None:
    x = torch.randint(0, 16, (128,), dtype=torch.int32, device="cuda")
    o, counts = torch.empty_like(x), torch.empty(16, dtype=torch.int32, device="cuda")
    kernels.sorted_and_counted[(1,)](x, o, counts, 128, 16)
    assert torch.equal(o, x.sort().values) and torch.equal(counts.long(), torch.bincount(x, minlength=16))


def test_gathering(session) -> None:
    x, index = torch.randn(128, device="cuda"), torch.randperm(128, device="cuda").int()
    o = torch.empty_like(x)
    kernels.gathered[(1,)](x, index, o, 128)
    assert torch.equal(o, x[index])


@pytest.mark.parametrize(
    ("dtype", "precision", "least"),
    [
        (torch.float16, "ieee", 75), (torch.bfloat16, "ieee", 80), (torch.float32, "ieee", 75),
        (torch.float32, "tf32", 80), (torch.float32, "tf32x3", 80), (torch.int8, "ieee", 80),
        (torch.float8_e5m2, "ieee", 89),
    ],
)  # fmt: skip
@pytest.mark.parametrize("num_stages", [1, 3])
def test_products(session, dtype, precision, least, num_stages) -> None:
    if session.device.sm < least:
        pytest.skip(f"{dtype} by {precision} from sm_{least}")
    is_integer = dtype is torch.int8
    m = 128 if session.device.sm == 100 else 64  # the emulator executes no tcgen05.mma with 64 rows in tensor memory
    a, b = (
        torch.randint(-4, 5, s, device="cuda") if is_integer else torch.randn(s, device="cuda")
        for s in ((m, 96), (96, 64))
    )
    a, b = a.to(dtype), b.to(dtype)
    c = torch.empty(m, 64, dtype=torch.int32 if is_integer else torch.float32, device="cuda")
    result = tl.int32 if is_integer else tl.float32
    kernels.product[(1,)](a, b, c, 96, m, 64, 32, precision, result, num_stages=num_stages)
    close(c, a.double() @ b.double(), **({"atol": 0.06, "rtol": 5e-3} if precision == "tf32" else {"atol": 2e-3}))


def test_atomics(session) -> None:
    x = torch.randint(0, 9, (200,), dtype=torch.int32, device="cuda")
    total, largest = torch.zeros(4, dtype=torch.int32, device="cuda"), torch.zeros(1, dtype=torch.int32, device="cuda")
    kernels.atomics[(2,)](x, total, largest, 200, 128)
    assert torch.equal(total.long(), x.view(50, 4).sum(0)) and largest.item() == x.max().item()


def test_locks(session) -> None:
    lock, total = torch.zeros(1, dtype=torch.int32, device="cuda"), torch.zeros(64, dtype=torch.int32, device="cuda")
    kernels.locked[(4,)](lock, total, 64)
    assert total.eq(4).all() and lock.item() == 0


def test_control_flow(session) -> None:
    x = torch.tensor([1, 7, 5, 27], dtype=torch.int32, device="cuda")
    o = torch.empty_like(x)
    kernels.control_flow[(4,)](x, o, 4)
    assert o.tolist() == [1 + 6 + 3, 16 + 3, 5 + 6 + 3, 111 + 3]


def test_random_numbers(session) -> None:
    o, again = torch.empty(256, device="cuda"), torch.empty(256, device="cuda")
    for seed, to in ((5, o), (5, again)):
        kernels.random_numbers[(1,)](to, seed, 256)
    assert torch.equal(o, again) and 0.4 < o.mean().item() < 0.6 and o.min() >= 0 and o.max() < 1


@pytest.mark.parametrize(
    ("to", "name"),
    [(tl.float16, "float16"), (tl.bfloat16, "bfloat16"), (tl.float8e5, "float8_e5m2"), (tl.int32, "int32")],
)
def test_conversions(session, to, name) -> None:
    if to in (tl.bfloat16, tl.float8e5) and session.device.sm < 80:
        pytest.skip("Triton has none below sm_80")
    x = torch.randn(128, device="cuda") * 10
    o = torch.empty_like(x)
    kernels.converted[(1,)](x, o, 128, to)
    assert torch.equal(o, x.to(getattr(torch, name)).float())


def test_descriptors(session) -> None:
    from triton.tools.tensor_descriptor import TensorDescriptor

    x, sums = torch.randn(32, 64, device="cuda").half(), torch.empty(32, device="cuda")
    kernels.row_sums[(2,)](x, sums, 32, 64, 16, 32)
    close(sums, x.float().sum(1), atol=1e-3)
    o = torch.zeros_like(x)
    kernels.copied[(2, 4)](*(TensorDescriptor.from_tensor(t, [16, 16]) for t in (x, o)), 16, 16)
    assert torch.equal(o, x)


def test_inline_assembly(session) -> None:
    x = torch.arange(128, dtype=torch.int32, device="cuda")
    o = torch.empty_like(x)
    kernels.assembly[(1,)](x, o, 128)
    assert torch.equal(o, x + 7)


def test_autotuning_and_heuristics(session) -> None:
    for n in (200, 256):
        x = torch.randn(n, device="cuda")
        o = torch.empty_like(x)
        kernels.tuned[lambda meta, n=n: (triton.cdiv(n, meta["B"]),)](x, o, n)
        assert torch.equal(o, 2 * x)
