"""A process repeats recorded launches, checks their results and reports failures. Its GPU is simulated here."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.gpu.launches import device
from benchmarks.gpu.launches import run as launches
from benchmarks.gpu.launches.device import Refused, assembled, at_offsets, launched, machine_code, outcome
from benchmarks.gpu.launches.kept import KeptLaunch, keep, names, read
from measurements.runners import launch as runners_launch
from measurements.runners.launch_refused import LaunchRefused
from search_spaces.hardware.dtypes import F32, I32, U32
from search_spaces.launches.launch import Launch, ScalarArgument
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import TensorMap

X, Y = Operand("x", "input", F32, (8,)), Operand("y", "output", F32, (4,))
SUMS, ROOM = Operand("sums", "inout", U32, (2,)), Operand("room", "workspace", I32, (4,), zeroed=True)
CONSTANT = Operand("constant", "input", I32, (4,))
LAUNCH = Launch(
    entry="f",
    arguments=(X, ScalarArgument("scale", F32, 0.5), Y, SUMS, ROOM, X),
    grid=(2, 1, 1),
    block=(32, 2, 1),
    dynamic_shared_bytes=512,
    launches=2,
    symbols=(CONSTANT,),
)
VALUES = np.arange(8, dtype=np.float32)
INPUTS = {"x": VALUES, "sums": np.array([10, 20], np.uint32), "constant": np.arange(4, dtype=np.int32)}
OUTPUTS = {"y": VALUES[2:6] * 0.5, "sums": np.array([12, 20], np.uint32)}
OFFSETS = {0: 8, 3: 0}


class DriverError(Exception):
    pass


class RuntimeFailure(Exception):
    pass


class HostGpu:
    """Fake of the cupy functions that ``launched`` uses, on host memory.

    A kernel is a Python function of the kernel's parameters. ``status`` is the stream's status after the launch.
    """

    def __init__(self, kernel: Callable[..., None], status: int = 0) -> None:
        self.kernel, self.status, self.calls, self.ended = kernel, status, 0, False
        self.constant = np.zeros(4, np.int32)
        runtime = SimpleNamespace(
            CUDARuntimeError=RuntimeFailure,
            streamQuery=lambda stream: self.status,
            memcpyAsync=lambda to, start, size, kind, stream: ctypes.memmove(to, start, size),
            memcpyDeviceToDevice=3,
        )
        self.cuda = SimpleNamespace(
            driver=SimpleNamespace(CUDADriverError=DriverError),
            runtime=runtime,
            Stream=lambda non_blocking: _Stream(self),
            Device=lambda: SimpleNamespace(compute_capability="90"),
            get_current_stream=lambda: SimpleNamespace(ptr=5),
        )

    def asarray(self, host: np.ndarray) -> Any:
        assert host.dtype == np.uint8
        copy = host.copy()
        return SimpleNamespace(data=SimpleNamespace(ptr=copy.ctypes.data), copy=copy)

    def asnumpy(self, array: Any) -> np.ndarray:
        return array.copy.copy()

    def RawModule(self, path: str) -> Any:
        assert Path(path).read_bytes() == b"machine code"
        pointer = SimpleNamespace(ptr=self.constant.ctypes.data)
        return SimpleNamespace(get_function=self._function, get_global=lambda name: pointer)

    def _function(self, entry: str) -> Any:
        assert entry == "f"

        class Function:
            max_dynamic_shared_size_bytes = 0

            def __call__(function, grid: Any, block: Any, parameters: Any, shared_mem: int) -> None:
                assert (grid, block, shared_mem) == ((2, 1, 1), (32, 2, 1), 512)
                assert function.max_dynamic_shared_size_bytes == 512
                self.calls += 1
                self.kernel(self, *parameters)

        return Function()


class _Stream(nullcontext):
    ptr = 5

    def __init__(self, gpu: HostGpu) -> None:
        super().__init__()
        self.gpu = gpu

    def synchronize(self) -> None:
        if self.gpu.status != 0:
            raise RuntimeFailure(f"cudaError {self.gpu.status}:\nan illegal memory access")


def host(address: int, dtype: Any, count: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_byte * (count * np.dtype(dtype).itemsize)).from_address(address), dtype)


def right(gpu: HostGpu, x: int, scale: Any, y: int, sums: int, room: int, whole_x: int) -> None:
    assert x == whole_x + 8
    assert gpu.constant.tolist() == [0, 1, 2, 3]
    assert host(room, np.int32, 4).tolist() == [0, 0, 0, 0]
    out = host(y, np.uint8, 16)
    assert gpu.calls % 2 == 0 or (out == 0xFF).all(), "unwritten memory contains 0xFF"
    out[:] = (host(x, np.float32, 4) * scale[0]).view(np.uint8)
    host(sums, np.uint32, 2)[0] += 1


def wrong(gpu: HostGpu, *parameters: Any) -> None:
    right(gpu, *parameters)
    host(parameters[2], np.float32, 4)[3] *= 2.0


@pytest.fixture
def stored(tmp_path: Path) -> KeptLaunch:
    keep(tmp_path, "t", "PTX", LAUNCH, INPUTS, OUTPUTS, offsets=OFFSETS)
    return read(tmp_path, names(tmp_path)[0])


def outcome_of(stored: KeptLaunch, gpu: HostGpu) -> dict[str, Any]:
    def code(arch: str) -> bytes:
        assert arch == "sm_90a"
        return b"machine code"

    return outcome(stored, lambda: launched(gpu, stored, code))


def test_a_launch_gets_its_arguments_and_its_outputs_are_compared(stored: KeptLaunch) -> None:
    gpu = HostGpu(right)
    assert outcome_of(stored, gpu) == {"status": "equal"}
    assert gpu.calls == 2, "as often as the launch specifies"
    assert outcome_of(stored, gpu) == {"status": "equal"}, "inputs are fresh"


def test_a_differing_launch_is_repeated(stored: KeptLaunch) -> None:
    gpu = HostGpu(wrong)
    assert outcome_of(stored, gpu) == {"status": "differs", "errors": {"y": 0.5}, "repeats": True}
    assert gpu.calls == 4

    def noisy(gpu: HostGpu, *parameters: Any) -> None:
        right(gpu, *parameters)
        host(parameters[3], np.uint32, 2)[1] = 100 * gpu.calls

    assert outcome_of(stored, HostGpu(noisy)) == {"status": "differs", "errors": {"sums": 0.9}, "repeats": False}
    unknown = dataclasses.replace(stored, known={})
    assert outcome_of(unknown, HostGpu(wrong)) == {"status": "differs", "errors": {"y": None}, "repeats": True}


def test_hangs_faults_and_refusals_are_distinguished(stored: KeptLaunch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "HANGS", 0.01)
    assert outcome_of(stored, HostGpu(right, status=600))["status"] == "hang"
    fault = outcome_of(stored, HostGpu(right, status=700))
    assert fault["status"] == "fault" and "cudaError 700" in fault["reason"] and "\n" not in fault["reason"]

    def refuse(gpu: HostGpu, *parameters: Any) -> None:
        raise DriverError("invalid\nvalue")

    refused = outcome_of(stored, HostGpu(refuse))
    assert refused["status"] == "refused" and "\n" not in refused["reason"]
    # the second launch is refused because the first launch has faulted
    assert outcome_of(stored, HostGpu(refuse, status=700))["status"] == "fault"


def test_a_map_that_the_driver_rejects_is_rejected(stored: KeptLaunch, monkeypatch: pytest.MonkeyPatch) -> None:
    def encode(tensor_map: TensorMap, address: int) -> Any:
        raise LaunchRefused("the driver rejects tensor map m")

    monkeypatch.setattr(runners_launch, "_encode_function", lambda: None)
    monkeypatch.setattr(runners_launch, "encode_tensor_map", encode)
    wide = Operand("m", "input", F32, (8, 8))
    mapped = dataclasses.replace(LAUNCH, arguments=(TensorMap.dense("m_map", wide, (4, 4)), *LAUNCH.arguments[1:]))
    inputs = {**INPUTS, "m": np.zeros((8, 8), np.float32)}
    done = outcome_of(dataclasses.replace(stored, launch=mapped, inputs=inputs, offsets={}), HostGpu(right))
    assert done == {"status": "refused", "reason": "the driver rejects tensor map m"}


def test_pointers_into_an_array_keep_their_offset() -> None:
    wide = Operand("m", "input", F32, (8, 8))
    launch = dataclasses.replace(LAUNCH, arguments=(wide, TensorMap.dense("map", wide, (4, 4)), wide, Y), symbols=())
    offset = KeptLaunch("t", "", launch, {}, {}, {}, offsets={1: 32, 2: 4})
    changed, addresses = at_offsets(offset, {"m": 4096, "y": 8192})
    array, tensor_map, inner, y = changed.arguments
    assert (array, y) == (wide, Y)
    assert isinstance(tensor_map, TensorMap) and isinstance(inner, Operand)
    starts = [addresses[o.name] for o in (array, tensor_map.operand, inner, y)]
    assert starts == [4096, 4128, 4100, 8192]
    with pytest.raises(ValueError, match="argument 1 "):
        at_offsets(KeptLaunch("t", "", LAUNCH, {}, {}, {}, offsets={1: 4}), {})


# ---- assembling PTX ----

PTX = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry f() { ret; }\n"


needs_ptxas = pytest.mark.skipif(device.ptxas() is None, reason="there is no ptxas")


@needs_ptxas
def test_ptxas_assembles_for_the_gpu_or_fails_in_one_line() -> None:
    cubin = assembled(PTX, "sm_80")
    assert cubin.startswith(b"\x7fELF") and assembled(PTX, "sm_90a") != cubin
    with pytest.raises(Refused) as refused:
        assembled(PTX.replace("ret;", "retire;"), "sm_90a")
    assert "line 4" in str(refused.value) and "\n" not in str(refused.value)
    with pytest.raises(Refused):
        assembled(PTX.replace("sm_80", "sm_100a"), "sm_90a")


@needs_ptxas
def test_preassembled_kernels_are_not_assembled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, text in enumerate((PTX, PTX, PTX.replace("ret;", "retire;"))):
        keep(tmp_path, "t", text, dataclasses.replace(LAUNCH, launches=number + 1), INPUTS, OUTPUTS)
    assert launches.main([str(tmp_path), "--assemble", "sm_90a"]) == 0
    assert capsys.readouterr().out == "assembled 1 of 2 modules for sm_90a\n"
    cubin = assembled(PTX, "sm_90a")
    monkeypatch.setattr(device, "assembled", lambda text, arch: b"assembled now")
    assert machine_code(tmp_path, PTX, "sm_90a") == cubin
    assert machine_code(tmp_path, PTX, "sm_80") == machine_code(tmp_path, f"{PTX}//", "sm_90a") == b"assembled now"


def test_the_newest_ptxas_assembles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = []
    for release in ("12.9", "13.0", "9.2"):
        program = tmp_path / release / "ptxas"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\necho Cuda compilation tools, release {release}, V{release}.1\n")
        program.chmod(0o755)
        programs.append(SimpleNamespace(name="ptxas", locate=lambda program=program: program))
    monkeypatch.setenv("PATH", f"{tmp_path / '9.2'}:/bin:/usr/bin")
    for wheels in (programs, programs[::-1], programs[:1]):
        monkeypatch.setattr("importlib.metadata.files", lambda name, wheels=wheels: wheels)
        ptxas = device.ptxas.__wrapped__()
        assert ptxas == str(tmp_path / ("12.9" if wheels == programs[:1] else "13.0") / "ptxas")


@pytest.fixture
def linker(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Replace the driver's linker functions by fakes whose machine code is "cubin"."""
    driver = pytest.importorskip("cuda.bindings.driver")
    content = ctypes.create_string_buffer(b"cubin")
    ok, bad = driver.CUresult.CUDA_SUCCESS, driver.CUresult.CUDA_ERROR_INVALID_PTX
    seen = SimpleNamespace(inputs=[], destroyed=[], status=ok, bad=bad, content=content)

    def add(state: Any, kind: Any, data: bytes, size: int, name: bytes, *options: Any) -> tuple[Any]:
        seen.inputs.append((state, kind, data, size, options))
        return (seen.status,)

    monkeypatch.setattr(device, "ptxas", lambda: None)
    monkeypatch.setattr(driver, "cuLinkCreate", lambda *_: (ok, "state"))
    monkeypatch.setattr(driver, "cuLinkAddData", add)
    monkeypatch.setattr(driver, "cuLinkComplete", lambda state: (ok, ctypes.addressof(content), 5))
    monkeypatch.setattr(driver, "cuLinkDestroy", lambda state: seen.destroyed.append(state))
    assembled.cache_clear()
    yield seen
    assembled.cache_clear()


def test_without_ptxas_the_driver_assembles(linker: SimpleNamespace) -> None:
    assert assembled(PTX, "sm_90a") == b"cubin"
    ((_, _, data, size, _),) = linker.inputs
    assert data == PTX.encode() + b"\0" and size == len(data), "the text ends with a zero byte, as the driver requires"
    assert linker.destroyed == ["state"]


def test_ptx_that_the_driver_cannot_assemble_is_rejected(linker: SimpleNamespace) -> None:
    linker.status = linker.bad
    with pytest.raises(Refused, match="the driver's assembler: CUDA_ERROR_INVALID_PTX"):
        assembled(PTX, "sm_90a")
    assert linker.destroyed == ["state"]
