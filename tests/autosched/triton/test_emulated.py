"""Triton programs run unchanged on the CPU, and faults are reported at their line."""

# mypy: ignore-errors
from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from needs import needs_compiler

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
triton = pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
import triton_program_kernels as kernels  # noqa: E402

from autosched.triton import THOROUGH, FaultsFound, LaunchFailed, emulate, emulated  # noqa: E402
from measurements.emulator import FindingKind  # noqa: E402

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::UserWarning")]


def line_of(text: str) -> int:
    """Return the first line of the kernels' file that has ``text``."""
    lines = Path(kernels.__file__).read_text().splitlines()
    return next(k for k, line in enumerate(lines, 1) if text in line)


@pytest.fixture(params=["a100", "h100"])
def session(request):
    with emulated(request.param) as opened:
        yield opened


def test_a_program_that_checks_for_cuda(session) -> None:
    x, y = torch.randn(300, device="cuda"), torch.randn(300).cuda()
    assert x.is_cuda and x.device == torch.device("cuda", 0) == triton.runtime.driver.active.get_active_torch_device()
    o = torch.empty_like(x)
    kernels.add[lambda meta: (triton.cdiv(300, meta["BLOCK"]),)](x, y, o, 300, BLOCK=128)
    torch.testing.assert_close(o, x + y)
    (launch,) = session.launches
    assert launch.kernel == "add" and launch.grid == (3, 1, 1) and launch.called_at.startswith(__file__)
    assert sum(s.sectors for s in launch.emulation.global_sites) == 3 * 38


def test_a_program_that_takes_any_accelerator(session) -> None:
    accelerator = torch.accelerator.current_accelerator()
    assert torch.accelerator.device_count() == 1
    x = torch.randn(300, device=accelerator)
    assert x.is_cuda and accelerator.type == "cuda" and torch.accelerator.current_device_index() == x.get_device()
    torch.accelerator.synchronize(x.device)
    weight = torch.nn.Parameter(x)
    weight.grad = torch.ones_like(x)
    torch.optim.AdamW([weight]).step()  # the optimizer asks torch.cuda whether a graph is being captured


def test_tensors_and_modules_move_to_the_gpu(session) -> None:
    """Call ``Tensor.to`` with every signature that programs and ``Module.to`` use."""
    model = torch.nn.Linear(4, 3).to("cuda")
    assert model.weight.is_cuda and model.to("cuda", torch.float16).weight.dtype is torch.float16
    assert model.to(device="cuda", dtype=torch.bfloat16, non_blocking=True).bias.dtype is torch.bfloat16
    x = torch.ones(2, 3, 4, 5)
    assert not x.is_cuda and x.to("cpu") is x
    x = x.to("cuda")
    assert x.is_cuda and x.to("cuda") is x
    assert x.to("cuda:0", non_blocking=True) is x and x.to(0) is x and x.to(None, None, True) is x
    assert x.to("cuda", torch.float16, True).dtype is torch.float16 and x.to("cuda", copy=True) is not x
    assert x.to(torch.int32, True).dtype is torch.int32
    assert x.to(torch.ones(1, dtype=torch.float64, device="cuda"), True).dtype is torch.float64
    assert x.to(memory_format=torch.channels_last).stride() == x.contiguous(memory_format=torch.channels_last).stride()
    index = torch.cuda.current_device()
    assert torch.zeros(3, device=index).is_cuda and torch.device(index) == torch.device("cuda", 0)
    host = x.to("cpu")
    assert host is not x and torch.equal(host, x) and host.device == torch.device("cpu") and not (x + 1).is_cpu


def test_kernels_run_on_cpu_tensors_without_simulated_cuda() -> None:
    with emulated("h100", fake_cuda=False) as session:
        x = torch.arange(64, dtype=torch.float16)
        o = torch.empty_like(x)
        kernels.scale[(1,)](o, x, 0.5, 64, BLOCK=64, num_warps=2)
        assert x.device.type == "cpu" and torch.equal(o, x * 0.5) and len(session.launches) == 1


def test_a_read_beyond_the_end() -> None:
    with pytest.raises(FaultsFound) as caught, emulated("h100"):
        x = torch.ones(300, device="cuda")
        kernels.add_without_mask[(3,)](x, x.clone(), torch.empty(300, device="cuda"), 300, BLOCK=128)
    (finding,) = caught.value.session.findings
    assert finding.kind is FindingKind.OUT_OF_BOUNDS_GLOBAL
    assert finding.file == kernels.__file__
    assert finding.line == line_of("tl.load(y + i), mask=i < n)")
    assert "byte 1200 of y, which has 1200 bytes" in str(caught.value)
    assert f"kernel add_without_mask, launched at {__file__}:" in str(caught.value)


def test_memory_of_torch_empty_holds_no_values() -> None:
    with emulated("h100", check=False) as session:
        x, o = torch.empty(128, device="cuda"), torch.empty(128, device="cuda")
        x[:100] = 1
        kernels.scale[(1,)](o, x, 2.0, 100, BLOCK=128)
        assert session.ok
        kernels.scale[(1,)](x, o, 2.0, 101, BLOCK=128)  # element 100 of o was not written
    assert [f.kind for f in session.findings] == [FindingKind.UNINITIALIZED_GLOBAL_READ]
    assert "element 100 of x" in session.findings[0].message, "the argument's name, not the tensor's"


def test_views_and_several_arguments_in_one_storage(session) -> None:
    storage = torch.arange(4 * 64, dtype=torch.float32, device="cuda")
    rows = storage.view(4, 64)
    kernels.add[(1,)](rows[1], rows[2], rows[3], 64, BLOCK=64, num_warps=2)
    assert torch.equal(rows[3], torch.arange(64, device="cuda") * 2.0 + 192)
    assert torch.equal(storage[:64], torch.arange(64.0, device="cuda"))
    x = torch.randn(40, 24, device="cuda")
    view = x[3:30:2, ::3]  # both dimensions of this view have a stride
    o = torch.empty(view.shape[::-1], device="cuda")
    kernels.transpose[(1, 1)](o, view, *view.shape, *view.stride(), BM=16, BN=8)
    assert torch.equal(o, view.t())


def test_updates_in_place_stay_within_a_view() -> None:
    with emulated("h100", check=False) as session:
        rows = torch.ones(2, 64, device="cuda")
        kernels.scale[(1,)](rows[0], rows[0], 3.0, 64, BLOCK=64, num_warps=2)
        assert session.ok and rows[0].eq(3).all() and rows[1].eq(1).all()
        kernels.scale[(1,)](rows[1], rows[1], 3.0, 65, BLOCK=128)
    assert {f.kind for f in session.findings} == {FindingKind.OUT_OF_BOUNDS_GLOBAL}


class Reversed:
    """A view with negative strides, which torch does not have. Triton accepts this object as a tensor."""

    def __init__(self, base: torch.Tensor) -> None:
        self._kept, self.dtype = base, base.dtype

    def data_ptr(self) -> int:
        return self._kept.data_ptr() + (self._kept.numel() - 1) * self._kept.element_size()


def test_a_kernel_that_torch_may_trace(session) -> None:
    x = torch.randn(300, device="cuda")
    o = torch.empty_like(x)
    torch.library.wrap_triton(kernels.scale)[(3,)](o, x, 2.0, 300, BLOCK=128)
    torch.testing.assert_close(o, 2 * x)


def test_an_object_with_a_data_pointer() -> None:
    with emulated("h100") as session:
        x, o = torch.arange(24.0, device="cuda"), torch.empty(6, 4, device="cuda")
        kernels.transpose[(1, 1)](o, Reversed(x), 4, 6, -6, -1, BM=4, BN=8)
        assert torch.equal(o, x.flip(0).view(4, 6).t()) and session.ok


def test_tuples_numbers_and_none_are_passed(session) -> None:
    a, b, o = torch.ones(50, device="cuda"), torch.ones(50, device="cuda"), torch.empty(50, device="cuda")
    kernels.add_pairs[(1,)]((a, b), o, 50, BLOCK=64, num_warps=2)
    assert o.eq(2).all()


def test_an_empty_grid_and_hooks() -> None:
    launched = []
    with emulated("h100") as session:
        x = torch.ones(8, device="cuda")
        before = triton.knobs.runtime.launch_enter_hook
        triton.knobs.runtime.launch_enter_hook = lambda metadata: launched.append(metadata.get()["name"])
        try:
            kernels.scale[(0,)](x, x, 2.0, 8, BLOCK=32, num_warps=1)
            kernels.scale[(1,)](x, x, 2.0, 8, BLOCK=32, num_warps=1)
        finally:
            triton.knobs.runtime.launch_enter_hook = before
    assert launched == ["scale", "scale"] and len(session.launches) == 1 and x.eq(2).all()


def test_tensor_descriptors_of_the_host(session) -> None:
    from triton.tools.tensor_descriptor import TensorDescriptor

    x = torch.randn(70, 48, dtype=torch.float16, device="cuda")
    o = torch.zeros_like(x)
    described = [TensorDescriptor.from_tensor(t, [32, 16]) for t in (o, x)]
    kernels.copy_by_descriptors[(3, 3)](*described, BM=32, BN=16)
    assert torch.equal(o, x)
    assert ("cp.async.bulk.tensor" in session.launches[0].ptx) == (session.device.sm >= 90)


def test_scratch_memory_for_descriptors_made_on_the_device(session) -> None:
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    x, o = torch.randn(32, 64, dtype=torch.float16, device="cuda"), torch.empty(32, device="cuda")
    kernels.row_sums_by_made_descriptor[(2,)](o, x, 32, 64, BM=16, BN=32)
    torch.testing.assert_close(o, x.float().sum(1))


def test_addresses_of_tensors_in_a_tensor(session) -> None:
    tensors = [torch.ones(n, device="cuda") for n in (5, 30, 17)]
    pointers = torch.tensor([t.data_ptr() for t in tensors], device="cuda")
    sizes = torch.tensor([5, 30, 17], dtype=torch.int32, device="cuda")
    kernels.grouped_scale[(1,)](pointers, sizes, 3, BLOCK=32, num_warps=1)
    assert [t.unique().tolist() for t in tensors] == [[2.0], [3.0], [4.0]]
    assert pointers.tolist() == [t.data_ptr() for t in tensors]


def test_autotuning_of_a_kernel_that_accumulates() -> None:
    """triton#6524: repeated benchmark calls add to the output if reset_to_zero is missing."""
    with emulated("h100") as session:
        x, o = torch.ones(100, device="cuda"), torch.zeros(100, device="cuda")
        grid = lambda meta: (triton.cdiv(100, meta["BLOCK"]),)  # noqa: E731
        kernels.accumulate_from_zero[grid](o, x, 100)
        assert o.eq(1).all() and not session.notes
        kernels.accumulate[grid](torch.zeros(100, device="cuda"), x, 100)
    assert len(session.notes) == 1
    assert "a repeated call changes the values of o" in session.notes[0] and "reset_to_zero" in session.notes[0]


def test_launches_of_several_threads() -> None:
    with emulated("h100", fake_cuda=False) as session:
        tensors = [torch.full((64,), float(k)) for k in range(4)]
        double = kernels.scale[(1,)]
        threads = [
            threading.Thread(target=double, args=(t, t, 2.0, 64), kwargs={"BLOCK": 64, "num_warps": 2}) for t in tensors
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [t[0].item() for t in tensors] == [0, 2, 4, 6] and len(session.launches) == 4


def test_orders_and_a_second_launch() -> None:
    with emulated("h100", plan=THOROUGH) as session:
        x = torch.ones(300, device="cuda")
        kernels.add[(3,)](x, x, torch.empty(300, device="cuda"), 300, BLOCK=128)
    (launch,) = session.launches
    names = [name for name, _ in launch.runs]
    assert names == [
        "ascending",
        "random, thread seed 1",
        "descending, thread seed 2",
        "interleaved, thread seed 3",
        "launched twice",
    ]
    assert not launch.differing


def test_unsupported_features_end_the_program() -> None:
    with emulated("h100", check=False) as session, pytest.raises(LaunchFailed, match="timeout: not done after"):
        session.plan = type(session.plan)(time_limit=0.001)
        x = torch.ones(2**16, device="cuda")
        kernels.add[(512,)](x, x, torch.empty(2**16, device="cuda"), 2**16, BLOCK=128)


def test_names_that_generated_code_imports() -> None:
    had = hasattr(torch._C, "_cuda_getCurrentRawStream")
    with emulated("h100"):
        from torch._C import _cuda_getCurrentRawStream

        with torch.cuda._DeviceGuard(0):
            assert _cuda_getCurrentRawStream(0) == 0
        x = torch._C._dynamo.guards._empty_strided_cuda((2, 64), (64, 1), torch.float32)
        kernels.scale[(1,)](x, torch.ones(128, device="cuda"), 2.0, 128, BLOCK=128)
        assert x.is_cuda and x.eq(2).all()
    assert hasattr(torch._C, "_cuda_getCurrentRawStream") is had


def test_the_context_restores_torch() -> None:
    before = torch.cuda.is_available(), torch.accelerator.current_accelerator(), triton.testing.do_bench
    with emulated("h100"):
        assert torch.cuda.is_available() and torch.cuda.get_device_name() == "NVIDIA H100 80GB HBM3"
        assert torch.cuda.get_device_properties(0).multi_processor_count == 132
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        x = torch.ones(64, device="cuda")
        kernels.scale[(1,)](x, x, 2.0, 64, BLOCK=64, num_warps=2)
        end.record()
        torch.cuda.synchronize()
        assert 0.001 < start.elapsed_time(end) < 1
        host = x.cpu()
        x.zero_()
        assert host.eq(2).all()
    after = torch.cuda.is_available(), torch.accelerator.current_accelerator(), triton.testing.do_bench
    assert after == before
    assert not torch.ones(1).is_cuda


def test_one_launch_on_arrays() -> None:
    x, o = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    trial = emulate(kernels.scale[(1,)], o, x, 3.0, 128, BLOCK=128, device="h100")
    assert trial.emulation.ok and (o == 3 * x).all()
    with pytest.raises(ValueError, match=r"kernel\[grid\]"):
        emulate(kernels.scale[(0,)], o, x, 3.0, 128, BLOCK=128, device="h100")


def test_kernels_print(session, capsys) -> None:
    kernels.show[(1,)](torch.arange(32, dtype=torch.int32, device="cuda") + 7, 32, num_warps=1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 32 and "pid (0, 0, 0) idx ( 5)" in lines[5] and lines[5].endswith("x: 12")


def test_one_number_of_the_device_for_torch_and_triton() -> None:
    targets = []
    for name in ("h100", "a100", "h100"):
        with emulated(name) as session:
            number = torch.cuda.current_device()
            assert number == triton.runtime.driver.active.get_current_device() == 0
            x = torch.ones(32, device="cuda")
            kernels.scale[(1,)](x, x, 2.0, 32, BLOCK=32, num_warps=1)
            assert x.eq(2).all() and len(kernels.scale.device_caches[number][0]) >= 1
            targets.append("sm_90" in session.launches[0].ptx)
    assert targets == [True, False, True]
