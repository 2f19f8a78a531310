"""The process that uses a GPU. For each request, it assembles and executes a recorded launch, and compares the results.

After a launch that faults or hangs, the caller kills the process, because a fault destroys the GPU context and a
hanging launch never ends.
"""

from __future__ import annotations

import ctypes
import dataclasses
import importlib.metadata
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu.launches.kept import READ, WRITTEN, KeptLaunch, bytes_of, read
from benchmarks.gpu.launches.table import largest_error
from measurements.files.text import one_line
from measurements.runners.launch import LoadedLaunch
from measurements.runners.launch_refused import LaunchRefused
from measurements.workers.messages import digest_of
from measurements.workers.worker import serve
from search_spaces.arrays import Array
from search_spaces.launches.launch import BytesArgument, Launch, ScalarArgument
from search_spaces.launches.operand import Operand

MODULE = "benchmarks.gpu.launches.device"
HANGS = 5.0  # time limit of a launch in seconds; few launches take longer even in the emulator
_WHEELS = ("nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu12")
_ASSEMBLY = 120.0  # time limit of ptxas, in seconds
_NOT_READY = 600  # cudaErrorNotReady
# keeps modules and arrays of hanging launches, because releasing these would wait for the launch
_abandoned: list[Any] = []


class Refused(Exception):
    """An assembler rejects a module. The message is one line."""


class Hang(Exception):
    """A launch that has not ended after HANGS seconds."""


class Fault(Exception):
    """The GPU has aborted a launch, which also destroys the context of this process."""


def handle(request: Mapping[str, Any]) -> dict[str, Any]:
    """Run the recorded launch ``name`` in ``folder``, and return its row of ``results.jsonl`` without the names."""
    import cupy

    folder = Path(request["folder"])
    stored = read(folder, request["name"])
    return outcome(stored, lambda: launched(cupy, stored, lambda arch: machine_code(folder, stored.text, arch)))


def outcome(stored: KeptLaunch, launch: Callable[[], Mapping[str, Array]]) -> dict[str, Any]:
    """Launch, compare the outputs with the expected outputs, and return the result.

    If the outputs differ, the launch is repeated. ``repeats`` is True if the GPU computes the same outputs again.
    """
    try:
        outputs = launch()
        errors = {
            name: largest_error(operand.dtype, outputs[name], stored.known.get(name))
            for name, operand in _operands(stored.launch).items()
            if operand.role in WRITTEN and digest_of(bytes_of(outputs[name])) != stored.expected[name]
        }
        if not errors:
            return {"status": "equal"}
        again = launch()
        same = all(bytes_of(again[name]) == bytes_of(outputs[name]) for name in errors)
        return {"status": "differs", "errors": errors, "repeats": same}
    except (Refused, LaunchRefused) as error:
        return {"status": "refused", "reason": str(error)}
    except Hang:
        return {"status": "hang", "reason": f"not done after {HANGS:g} s"}
    except Fault as error:
        return {"status": "fault", "reason": str(error)}


def launched(cp: Any, stored: KeptLaunch, code: Callable[[str], bytes]) -> dict[str, Array]:
    """Launch on the current GPU and return the contents of the outputs.

    ``cp`` is cupy; ``code`` returns the module's machine code for an architecture.

    Raises Refused, LaunchRefused, Hang, Fault.
    """
    errors = (cp.cuda.driver.CUDADriverError, cp.cuda.runtime.CUDARuntimeError)
    operands = _operands(stored.launch)
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        arrays = {}
        for name, operand in operands.items():
            before = stored.inputs[name] if operand.role in READ else _before(operand)
            arrays[name] = cp.asarray(np.frombuffer(bytes_of(before), np.uint8))
        launch, addresses = at_offsets(stored, {name: int(array.data.ptr) for name, array in arrays.items()})
        capability = str(cp.cuda.Device().compute_capability)  # such as "90"
        cubin = code(f"sm_{capability}{'a' if int(capability) >= 90 else ''}")
        loaded: LoadedLaunch | None = None
        try:
            with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
                file.write(cubin)
                file.flush()
                loaded = LoadedLaunch(cp, launch, file.name)
            loaded.fill_symbols(addresses)
            loaded(addresses)
        except errors as error:
            refused: Refused | None = Refused(one_line(str(error)))
        else:
            refused = None
        try:
            limit = time.monotonic() + HANGS
            while cp.cuda.runtime.streamQuery(stream.ptr) == _NOT_READY:
                if time.monotonic() > limit:
                    _abandoned.append((loaded, arrays, stream))
                    raise Hang
                time.sleep(0.0002)
            stream.synchronize()  # raises a pending error, which may come from a launch before the rejected launch
            if refused is not None:
                raise refused
            held = {name: cp.asnumpy(arrays[name]) for name, o in operands.items() if o.role in WRITTEN}
        except errors as error:
            raise Fault(one_line(str(error))) from None
    return {name: held[name].view(operands[name].dtype.storage).reshape(operands[name].shape) for name in held}


def at_offsets(stored: KeptLaunch, starts: Mapping[str, int]) -> tuple[Launch, dict[str, int]]:
    """Replace each argument that points into an array by an operand that begins at this address.

    Return the launch and the addresses of all operands.
    """
    arguments, addresses = list(stored.launch.arguments), dict(starts)
    for position, offset in stored.offsets.items():
        argument: Any = arguments[position]
        if isinstance(argument, ScalarArgument | BytesArgument):
            raise ValueError(f"argument {position} must be a pointer")
        operand = argument if isinstance(argument, Operand) else argument.operand
        inner = dataclasses.replace(operand, name=f"{operand.name} from byte {offset}")
        addresses[inner.name] = starts[operand.name] + offset
        arguments[position] = inner if argument is operand else dataclasses.replace(argument, operand=inner)
    return dataclasses.replace(stored.launch, arguments=tuple(arguments)), addresses


def machine_code(folder: Path, text: str, arch: str) -> bytes:
    """Return the machine code that ``--assemble`` stored in ``folder`` for ``arch``; else assemble the PTX.

    Raises Refused.
    """
    path = cubin_path(folder, digest_of(text.encode()), arch)
    return path.read_bytes() if path.exists() else assembled(text, arch)


def cubin_path(folder: Path, ptx: str, arch: str) -> Path:
    return folder / "cubins" / arch / f"{ptx}.cubin"


@lru_cache(maxsize=4)  # a small cache is enough, because launches of one module are consecutive
def assembled(text: str, arch: str) -> bytes:
    """Assemble PTX for ``arch`` ("sm_90a") with ptxas. If ptxas is missing, the driver assembles for the current GPU.

    Raises:
        Refused: The assembler rejects the PTX.
    """
    program = ptxas()
    if program is None:
        return _assembled_by_driver(text)
    with tempfile.TemporaryDirectory() as folder:
        ptx, cubin = Path(folder) / "module.ptx", Path(folder) / "module.cubin"
        ptx.write_text(text, encoding="utf-8")
        command = [program, f"-arch={arch}", "-o", str(cubin), str(ptx)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_ASSEMBLY, check=False)
        except subprocess.TimeoutExpired:
            raise Refused(f"ptxas did not end within {_ASSEMBLY:g} s") from None
        if done.returncode != 0:
            message = next(
                (line for line in done.stderr.splitlines() if line.strip()), f"exit status {done.returncode}"
            )
            raise Refused(one_line(message.replace(f"{ptx}, ", "")))
        return cubin.read_bytes()


@cache
def ptxas() -> str | None:
    """Return the newest ptxas on the PATH or in NVIDIA's nvcc wheels, since a new NVRTC's PTX needs a new ptxas.

    Returns None if there is none.
    """
    candidates = [shutil.which("ptxas")]
    for wheel in _WHEELS:
        try:
            files = importlib.metadata.files(wheel) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        candidates += [str(f.locate()) for f in files if f.name in ("ptxas", "ptxas.exe")]
    return max((program for program in candidates if program is not None), key=_release, default=None)


def _release(program: str) -> tuple[int, ...]:
    """Return the release of a ptxas, such as (13, 0), or () if the program does not run."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    release = re.search(r"release (\d+)\.(\d+)", done.stdout)
    return () if release is None else tuple(map(int, release.groups()))


def _assembled_by_driver(text: str) -> bytes:
    from cuda.bindings import driver

    source = text.encode() + b"\0"
    status, state = driver.cuLinkCreate(0, [], [])
    if int(status) != 0:
        raise Refused(f"the driver's linker: {status.name}")
    try:
        ptx = driver.CUjitInputType.CU_JIT_INPUT_PTX
        (status,) = driver.cuLinkAddData(state, ptx, source, len(source), b"module.ptx", 0, [], [])
        if int(status) == 0:
            status, content, size = driver.cuLinkComplete(state)
        if int(status) != 0:
            raise Refused(f"the driver's assembler: {status.name}")
        return ctypes.string_at(int(content), int(size))
    finally:
        driver.cuLinkDestroy(state)


def _operands(launch: Launch) -> dict[str, Operand]:
    return {o.name: o for o in launch.operands}


def _before(operand: Operand) -> Array:
    """Return the initial bytes of an array whose contents are undefined: 0xFF, as in the emulator."""
    return np.full(operand.bytes, 0 if operand.zeroed else 0xFF, np.uint8)


if __name__ == "__main__":
    serve(handle)
