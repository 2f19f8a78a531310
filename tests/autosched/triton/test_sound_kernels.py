"""Correct programs of public suites that were once rejected by mistake, each with a faulty variant."""

# mypy: ignore-errors
from __future__ import annotations

import pytest
from needs import needs_compiler

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
triton = pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
import triton.language as tl  # noqa: E402
import triton_sound_kernels as kernels  # noqa: E402
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402

from autosched.triton import emulated  # noqa: E402
from measurements.emulator import FindingKind as K  # noqa: E402

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::UserWarning")]


DEVICES = ["h100", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("b200", "rtx5090", "a100", "t4"))]


@pytest.fixture(params=DEVICES)
def session(request):
    with emulated(request.param, check=False) as opened:
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
        yield opened


def faults(session):
    return {f.kind for f in session.findings if f.is_fault}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("seed", range(3))
def test_sums_of_products_whose_replicas_differ_in_the_last_bit(session, dtype, seed) -> None:
    torch.manual_seed(seed)
    x, w = torch.randn(16, 16, device="cuda").to(dtype), torch.randn(16, device="cuda").to(dtype)
    y, total = torch.empty(16, dtype=dtype, device="cuda"), torch.empty(1, dtype=dtype, device="cuda")
    kernels.column_sums[(1,)](x, w, y, 16, 16)
    kernels.sum_of_squares[(1,)](torch.randn(100, device="cuda").to(dtype), total, 100, 128)
    assert not session.fault_lines()
    if session.device.name == "h100":
        assert any("last bits" in line for line in session.note_lines())
    torch.testing.assert_close(y.float(), (x.float() * w.float()[:, None]).sum(0), atol=0.1, rtol=0.02)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_stores_of_all_threads_to_one_element_are_a_race(session, dtype) -> None:
    x, y = torch.randn(128, device="cuda").to(dtype), torch.empty(1, dtype=dtype, device="cuda")
    kernels.squares_to_one_place[(1,)](x, y, 128)
    assert faults(session) == {K.GLOBAL_RACE}


def test_descriptors_that_round_to_tf32(session) -> None:
    x, o = torch.randn(1, 16, device="cuda"), torch.empty(1, 16, device="cuda")
    kernels.load_row[(1,)](TensorDescriptor.from_tensor(x, [1, 16], round_f32_to_tf32=True), o, 16)
    bits = x.view(torch.int32).long() & 0xFFFFFFFF
    nearest = (bits + ((bits >> 13) & 1) + 0xFFF) & 0xFFFFE000
    assert torch.equal(o.view(torch.int32).long() & 0xFFFFFFFF, nearest)
    assert not torch.equal(o, x) and not session.fault_lines()


@pytest.mark.parametrize("dtype", [torch.int8, torch.float32])
def test_maps_that_begin_as_zeros(session, dtype) -> None:
    """Triton 3.9 does not set a tensor map's rank field for rank 1, or its type field for bytes, since both are 0."""
    x = torch.arange(64, device="cuda").to(dtype).reshape(4, 16)
    y = torch.zeros(64, dtype=dtype, device="cuda")
    kernels.flatten_by_descriptors[(1,)](x, y, 4, 16)
    assert not session.fault_lines() and torch.equal(y, x.flatten())


@pytest.mark.parametrize("dtype", [torch.float16, torch.int64])
def test_ragged_descriptors_whose_addresses_wrap(session, dtype) -> None:
    ragged = pytest.importorskip("triton.tools.ragged_tma")
    x = torch.arange(64 * 32, device="cuda").to(dtype).reshape(64, 32)
    y = torch.zeros(64, 32, dtype=dtype, device="cuda")
    descriptors = [ragged.create_ragged_descriptor(t, [16, 32]) for t in (x, y)]
    kernels.copy_ragged[(1,)](*descriptors, 7, 11)
    expected = torch.zeros_like(x)
    expected[7:18] = x[7:18]
    assert not session.fault_lines() and torch.equal(y, expected)


def test_a_ragged_row_beyond_the_tensor_is_out_of_bounds(session) -> None:
    ragged = pytest.importorskip("triton.tools.ragged_tma")
    x, y = (torch.zeros(64, 32, dtype=torch.float16, device="cuda") for _ in range(2))
    descriptors = [ragged.create_ragged_descriptor(t, [16, 32]) for t in (x, y)]
    kernels.copy_ragged[(1,)](*descriptors, 60, 11)
    assert K.OUT_OF_BOUNDS_GLOBAL in faults(session)


@pytest.mark.parametrize("kernel", [kernels.store_if_larger, kernels.increment])
def test_a_scalar_that_one_thread_stores(session, kernel) -> None:
    """All warps load the scalar, but its value matters only in the warp that stores the result."""
    x = torch.full((1,), 43, dtype=torch.int32, device="cuda")
    kernel[(1,)](x)
    assert not session.fault_lines() and session.findings and x.item() in (42, 44)


def test_a_scalar_that_controls_stores_of_others_is_a_race(session) -> None:
    x, y = torch.full((1,), 43, dtype=torch.int32, device="cuda"), torch.zeros(128, dtype=torch.int32, device="cuda")
    kernels.store_more_if_larger[(1,)](x, y, 128)
    assert faults(session) == {K.GLOBAL_RACE}


def test_blocks_that_store_back_the_value_they_read(session) -> None:
    x = torch.full((1,), 43, dtype=torch.int32, device="cuda")
    kernels.store_back[(3,)](x, 7)
    assert not session.fault_lines() and x.item() == 43
    kernels.increment[(3,)](x)
    assert faults(session) == {K.GLOBAL_RACE}


@pytest.mark.parametrize("narrow", [tl.float16, tl.bfloat16])
def test_lower_precision_inside_is_no_race(session, narrow) -> None:
    torch.manual_seed(0)
    y = torch.empty(1, device="cuda")
    for _ in range(4):
        kernels.low_precision_sum[(1,)](torch.randn(128, device="cuda"), y, 128, narrow)
    assert not session.fault_lines()


@pytest.mark.parametrize("chunk", [0, 32])
def test_accumulators_read_after_a_wait_injected_by_ptxas_are_accepted(session, chunk) -> None:
    """With ``max_num_imprecise_acc`` the PTX reads accumulators without a wait. ptxas injects one (C7517)."""
    if session.device.sm < 89:
        pytest.skip("no products of fp8")
    torch.manual_seed(1)
    a = torch.randn(64, 128, device="cuda").to(torch.float8_e5m2)
    b = torch.randn(128, 64, device="cuda").to(torch.float8_e5m2)
    c = torch.empty(64, 64, device="cuda")
    kernels.fp8_matmul[(1,)](a, b, c, 128, 64, 64, 64, chunk, num_stages=1)
    is_noted = K.WGMMA_IN_FLIGHT in {f.kind for f in session.findings}
    assert not session.fault_lines() and is_noted == (chunk != 0 and session.device.sm == 90)
    torch.testing.assert_close(c, a.float() @ b.float(), atol=1e-3, rtol=1e-3)


def test_a_use_far_from_an_injected_wait_stays_a_fault(monkeypatch) -> None:
    from autosched.triton import ptxas
    from measurements.emulator import Emulation, Finding, FindingKind

    def use(line: int) -> Finding:
        message = f"warp 0 reads {ptxas._REGISTER}"
        return Finding(FindingKind.WGMMA_IN_FLIGHT, message, "k.py", 1, instruction=f"PTX line {line}: add.f32 a, b, c")

    monkeypatch.setattr(ptxas, "_injected_waits", lambda ptx, arch: (300,))
    emulation = Emulation("ok", {}, findings=(use(290), use(900)), shared_sites=(), global_sites=())
    grades = {f.instruction.split(":")[0]: f.grade for f in ptxas.with_injected_waits(emulation, "", 90).findings}
    assert grades == {"PTX line 290": "note", "PTX line 900": "fault"}
