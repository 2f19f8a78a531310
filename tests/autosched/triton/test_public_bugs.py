"""Publicly reported bugs are found without a GPU. Tests are named by project and issue number."""

# mypy: ignore-errors
from __future__ import annotations

from pathlib import Path

import pytest
from needs import needs_compiler

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
import triton  # noqa: E402
import triton_program_kernels as kernels  # noqa: E402
import triton_tutorial_kernels as tutorials  # noqa: E402

from autosched.triton import emulated  # noqa: E402
from autosched.triton.storages import Storages  # noqa: E402
from autosched.triton.tuning.call import KernelCall  # noqa: E402
from autosched.triton.tuning.compiling.candidate import NotLaunched, compiled  # noqa: E402
from autosched.triton.tuning.function import TritonFunction  # noqa: E402
from measurements.emulator import FindingKind, emulate_ptx  # noqa: E402
from measurements.trials.measurement import Status  # noqa: E402
from search_spaces.hardware.devices import device  # noqa: E402

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::UserWarning")]


def test_triton_10927_an_unchecked_stride_of_a_descriptor() -> None:
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    with emulated("h100", check=False) as session:
        x, o = torch.ones(32, 511, dtype=torch.float16, device="cuda"), torch.empty(32, device="cuda")
        kernels.row_sums_by_made_descriptor[(2,)](o, x, 32, 511, BM=16, BN=32)
    assert FindingKind.INVALID_ARGUMENT in {f.kind for f in session.findings}
    assert any("global_stride 0 is 1022 bytes, not a multiple of 16" in line for line in session.fault_lines())


def test_tritonbench_1266_a_lock_is_released_before_all_warps_have_stored() -> None:
    """Also triton#6307: if rows share a lock, gradients of a layer norm are wrong in 99 of 100 runs on an RTX 4090.

    Triton 3.7 has no barrier between the stores of all warps and the exchange that releases the lock. Triton 3.9 has
    this barrier, so the test removes it from the PTX.
    """
    rows, n, group = 8, 160, 2
    x, sums, locks = torch.randn(rows, n), torch.zeros(group, n), torch.zeros(group, dtype=torch.int32)
    arguments = {"sums": sums, "x": x, "locks": locks, "stride": n, "n": n, "GROUP": group, "BLOCK": 256}
    function = TritonFunction.of(tutorials.column_sums_under_locks)
    compiled_kernel = compiled(function, KernelCall((rows,), arguments), {}, None, device("h100"), Storages())
    inputs, memory = compiled_kernel.arguments.inputs(), compiled_kernel.arguments.memory()
    lines = compiled_kernel.ptx.splitlines()
    release = max(k for k, line in enumerate(lines) if "atom" in line and ".exch" in line)
    barrier = max(k for k in range(release) if "bar.sync" in lines[k])
    stored = max(k for k in range(release) if "st.global" in lines[k])
    as_it_was = "\n".join(line for k, line in enumerate(lines) if k != barrier or barrier < stored)

    racing = emulate_ptx(as_it_was, compiled_kernel.launch, inputs, memory=memory)
    shared = {
        k for k, line in enumerate(Path(tutorials.__file__).read_text().splitlines(), 1) if "# under the lock" in line
    }
    assert len(shared) == 1
    races = [f for f in racing.findings if f.is_fault and f.kind is FindingKind.GLOBAL_RACE]
    assert races and {f.line for f in races} & shared, racing.findings
    if barrier > stored:
        emulation = emulate_ptx(compiled_kernel.ptx, compiled_kernel.launch, inputs, memory=memory)
        assert not {f.line for f in emulation.findings if f.is_fault} & shared, emulation.findings
        by_group = torch.from_numpy(emulation.outputs["sums"].view("f4").reshape(group, n))
        torch.testing.assert_close(by_group, x.view(rows // group, group, n).sum(0))


def test_sglang_28019_a_default_configuration_that_no_consumer_blackwell_has_room_for() -> None:
    """The configuration needs 147,456 bytes of shared memory, but an RTX 5090 allows 101,376. Serving crashed."""
    a, b, c = (torch.zeros(256, 256, dtype=torch.float16) for _ in range(3))
    arguments = {
        "a": a,
        "b": b,
        "c": c,
        "M": 256,
        "N": 256,
        "K": 256,
        "stride_a": 256,
        "stride_b": 256,
        "stride_c": 256,
    }
    default = {"BM": 128, "BN": 256, "BK": 64, "GROUP": 8, "LEAKY": False, "num_warps": 8, "num_stages": 4}
    call = KernelCall((2,), arguments)
    function = TritonFunction.of(tutorials.matmul)
    with pytest.raises(NotLaunched) as refused:
        compiled(function, call, default, None, device("rtx5090"), Storages())
    assert refused.value.status is Status.OUT_OF_RESOURCES
    assert refused.value.reason == "a block needs 147,456 bytes of shared memory, but rtx5090 has 101,376"
    assert compiled(function, call, default, None, device("a100"), Storages()).resources.dynamic_shared_bytes == 147_456
