"""Anyone's kernel on the CPU, from its CUDA source, its PTX, or a Triton kernel compiled for a GPU that is not here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from measurements.compiler.nvrtc import PTX_OPTIONS
from measurements.compiler.pool import error_reason
from measurements.compiler.ptx import CompilerStopped, compile_to_ptx
from measurements.emulator import ASCENDING, Emulation, Finding, GlobalSite, Order, SharedSite, emulate_ptx
from measurements.emulator.architecture import source_arch
from measurements.emulator.ptx.parser import PtxError, parse
from measurements.emulator.ptx.syntax import Function, Module, Variable
from search_spaces.hardware.dtypes import SCALAR_DTYPES
from search_spaces.operators.problem import Array, Operand
from search_spaces.templates.headers import Headers
from search_spaces.templates.kernel import Argument, Launch, Scalar, Size3

Size = int | Sequence[int]
_UNSIGNED = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}


@dataclass(frozen=True, eq=False)
class EmulatedLaunch:
    """What came of a launch.

    ``arrays`` are the arguments as the kernel left them, None for those that are no arrays, and for all where it did
    not finish. ``status`` and the rest are those of ``measurements.emulator.Emulation``.
    """

    emulation: Emulation
    arrays: tuple[Array | None, ...]

    @property
    def status(self) -> str:
        return self.emulation.status

    @property
    def ok(self) -> bool:
        return self.emulation.ok

    @property
    def reason(self) -> str:
        return self.emulation.reason

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.emulation.findings

    @property
    def shared_sites(self) -> tuple[SharedSite, ...]:
        return self.emulation.shared_sites

    @property
    def global_sites(self) -> tuple[GlobalSite, ...]:
        return self.emulation.global_sites


@dataclass(frozen=True)
class _Bytes(Scalar):
    """A struct that is passed by value."""

    data: bytes = b""

    def __post_init__(self) -> None:
        pass

    @property
    def stored(self) -> Array:
        return np.frombuffer(self.data, dtype=np.uint8)


def emulate(
    program: Any,
    *,
    kernel: str = "",
    arguments: Sequence[Any],
    grid: Size,
    block: Size | None = None,
    shared_bytes: int | None = None,
    outputs: Sequence[int] = (),
    aliases: Mapping[int, int] | None = None,
    headers: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
    time_limit: float = 60.0,
    perturb: bool = False,
    order: Order = ASCENDING,
    launches: int = 1,
) -> EmulatedLaunch:
    """Run one launch of a kernel on the CPU, instruction by instruction of its PTX, and say what is wrong with it.

    - ``program``: CUDA C++ (which NVRTC compiles), PTX text, or what ``triton.compile`` returned for a CUDA target.
    - ``kernel``: the name of its ``__global__`` function, or a name expression (``"scale<float, 4>"``); may be left out
      where there is one.
    - ``arguments``: numpy arrays, and numbers or structs (``numpy.void``, bytes) for parameters that are no pointers,
      in the order of the parameters. The arrays given are not changed. Of the pointers that Triton adds, that of its
      global scratch memory is made where the kernel needs it; others that a compiler adds are null.
    - ``grid``, ``block``: one to three sizes each; ``shared_bytes``: dynamic shared memory. A Triton kernel knows its
      block and its shared memory.
    - ``outputs``: positions of arrays that the kernel fills: what is read or left before it is written is a finding.
    - ``aliases``: ``{3: 0}`` passes the array of argument 0 as argument 3, too, as in place; the one that stands there
      is not used.
    - ``headers``, ``options``: texts by include name, and options of NVRTC. CUDA's own headers are found by themselves
      where a toolkit, or the wheel nvidia-cuda-runtime, is installed.
    - ``order``: of blocks, and with a seed also of the turns of warps, lanes and atomics: what waits for nothing, and
      is right by the luck of an order, is wrong in another one (``measurements.emulator.Order``).
    - ``launches``: how often the kernel runs, one after another, each time on what the one before has left, but for
      ``outputs``, which must be written again: what a launch does not leave as it found it shows.
    - ``perturb``: approximate instructions (``ex2.approx``, ``rcp.approx``) err as much as the PTX ISA allows.

    Raises ValueError for arguments that do not fit the kernel, NvrtcMissing for CUDA source without NVRTC, and
    HostFailure where this machine cannot emulate. A kernel that does not compile, crashes or never ends is a status.
    """
    text, entry, failed = _ptx_of(program, kernel, headers or {}, options)
    if failed is not None:
        return EmulatedLaunch(failed, (None,) * len(arguments))
    block, shared_bytes = _launch_of(program, block, shared_bytes)
    try:
        module = parse(text)
    except PtxError as error:
        return EmulatedLaunch(Emulation("compile_error", {}, (), (), (), reason=str(error)), (None,) * len(arguments))
    entry = entry or _only(module)
    if entry not in module.kernels:
        raise ValueError(f"the program has no kernel {entry!r}; it has {', '.join(module.kernels) or 'none'}")
    function = module.functions[entry]
    _check_block(function, _three(block))
    parameters = function.parameters
    aliases = aliases or {}
    left_out = len(parameters) > len(arguments)
    given = [*arguments, *(_scratch(program, math.prod(_three(grid))) if left_out else ())]
    passed, inputs = _arguments(parameters, given, outputs, aliases)
    launch = Launch(
        entry=entry,
        arguments=passed,
        grid=_three(grid),
        block=_three(block),
        dynamic_shared_bytes=shared_bytes,
    )
    run = emulate_ptx(text, launch, inputs, time_limit=time_limit, perturb=perturb, order=order, calls=launches)
    arrays = tuple(
        run.outputs[name].reshape(-1).view(a.dtype).reshape(a.shape)
        if isinstance(a, np.ndarray) and (name := f"argument_{aliases.get(k, k)}") in run.outputs
        else None
        for k, a in enumerate(arguments)
    )
    return EmulatedLaunch(run, arrays)


def is_ptx(program: str) -> bool:
    """Whether a text is PTX, which needs no compiler, and not CUDA source."""
    return ".version" in program and ".target" in program and "__global__" not in program


def _ptx_of(
    program: Any, kernel: str, headers: Mapping[str, str], options: Sequence[str]
) -> tuple[str, str, Emulation | None]:
    """PTX text, the kernel's name in it ("": the only one), and the result where it does not compile."""
    compiled = getattr(program, "asm", None)
    if isinstance(compiled, Mapping):
        if "ptx" not in compiled:
            raise ValueError("the compiled kernel holds no PTX: compile it for a CUDA target")
        return str(compiled["ptx"]), kernel, None
    if not isinstance(program, str):
        raise ValueError(f"a program is CUDA source, PTX or a compiled Triton kernel, not {type(program).__name__}")
    if is_ptx(program):
        return program, kernel, None
    found = Headers.of(headers)
    try:
        output = compile_to_ptx(program, kernel, source_arch(program, found), found, (*PTX_OPTIONS, *options))
    except CompilerStopped as stopped:
        return "", "", Emulation(stopped.status, {}, (), (), (), reason=str(stopped))
    if output.text is None:
        failed = Emulation("compile_error", {}, (), (), (), reason=error_reason(output.log), log=output.log)
        return "", "", failed
    return output.text, output.entry, None


def _launch_of(program: Any, block: Size | None, shared_bytes: int | None) -> tuple[Size, int]:
    metadata = getattr(program, "metadata", None)
    if block is None:
        if metadata is None:
            raise ValueError("a launch needs its block: the threads of a block, for example block=256")
        block = 32 * int(metadata.num_warps)
    if shared_bytes is None:
        shared_bytes = int(metadata.shared) if metadata is not None else 0
    return block, shared_bytes


def _scratch(program: Any, blocks: int) -> list[Array]:
    """The global memory that a Triton kernel asks for, of all its blocks: there it makes its tensor descriptors."""
    metadata = getattr(program, "metadata", None)
    size = int(getattr(metadata, "global_scratch_size", 0) or 0)
    return [np.zeros(size * blocks, dtype=np.uint8)] if size else []


def _only(module: Module) -> str:
    if len(module.kernels) != 1:
        raise ValueError(f"name one of the kernels: {', '.join(module.kernels) or 'the program has none'}")
    return module.kernels[0]


def _three(size: Size) -> Size3:
    sizes = (size,) if isinstance(size, int) else tuple(size)
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"a grid or a block has one to three sizes, not {sizes}")
    x, y, z = (*(int(n) for n in sizes), 1, 1)[:3]
    return x, y, z


def _check_block(function: Function, block: Size3) -> None:
    """Raises ValueError where the driver would refuse the launch: ``__launch_bounds__``, ``__block_size__``."""
    most, exact = function.most_threads, function.exact_threads
    if most and math.prod(block) > math.prod(most):
        raise ValueError(
            f"{function.name} is compiled for at most {math.prod(most)} threads a block (__launch_bounds__), "
            f"not for {math.prod(block)}"
        )
    if exact and block != exact:
        raise ValueError(f"{function.name} is compiled for blocks of {exact} threads, not of {block}")


def _arguments(
    parameters: Sequence[Variable], given: Sequence[Any], outputs: Sequence[int], aliases: Mapping[int, int]
) -> tuple[tuple[Argument, ...], dict[str, Array]]:
    added = len(parameters) - len(given)
    if added < 0 or any(p.bytes != 8 for p in parameters[len(given) :]):
        raise ValueError(f"the kernel takes {len(parameters)} arguments, not {len(given)}")
    for k, first in aliases.items():
        both = [given[n] for n in (first, k) if 0 <= n < len(given)]
        if first >= k or first in aliases or len(both) < 2 or not all(isinstance(a, np.ndarray) for a in both):
            raise ValueError(f"aliases: argument {k} cannot be the array of argument {first}: name one in front of it")
        if both[0].nbytes != both[1].nbytes:
            raise ValueError(f"aliases: arguments {first} and {k} have {both[0].nbytes} and {both[1].nbytes} bytes")
    filled = {aliases.get(k, k) for k in outputs}
    passed: list[Argument] = []
    inputs: dict[str, Array] = {}
    for k, (parameter, value) in enumerate(zip(parameters, [*given, *[0] * added], strict=True)):
        name = f"argument_{k}"
        if k in aliases:
            passed.append(passed[aliases[k]])
        elif isinstance(value, np.ndarray):
            if parameter.bytes != 8:
                raise ValueError(
                    f"argument {k} is an array, and its parameter has {parameter.bytes} bytes: pass a number"
                )
            plain = np.ascontiguousarray(value).reshape(-1)
            plain = plain.view(_unsigned(plain.dtype.itemsize)) if plain.size else plain.astype(np.uint8)
            role = "output" if k in filled else "inout"
            dtype = SCALAR_DTYPES[_UNSIGNED[plain.dtype.itemsize]]
            passed.append(Operand(name, role, dtype, plain.shape))  # type: ignore[arg-type]
            if role == "inout":
                inputs[name] = plain
        else:
            passed.append(_Bytes(name, SCALAR_DTYPES["u8"], 0, _value_bytes(k, parameter, value)))
    return tuple(passed), inputs


def _unsigned(bytes_: int) -> np.dtype[Any]:
    return np.dtype(SCALAR_DTYPES[_UNSIGNED[next(n for n in (8, 4, 2, 1) if bytes_ % n == 0)]].storage)


def _value_bytes(k: int, parameter: Variable, value: Any) -> bytes:
    """A number or a struct in as many bytes as the parameter has."""
    if isinstance(value, np.generic | bytes | bytearray):
        data = value.tobytes() if isinstance(value, np.generic) else bytes(value)
        if len(data) != parameter.bytes:
            raise ValueError(f"argument {k} has {len(data)} bytes, and its parameter {parameter.bytes}")
        return data
    if isinstance(value, float) and parameter.bytes in (2, 4, 8):
        return np.array(value, dtype=f"f{parameter.bytes}").tobytes()
    if isinstance(value, int):
        if parameter.type in ("f32", "f64"):
            return _value_bytes(k, parameter, float(value))
        try:
            return value.to_bytes(parameter.bytes, "little", signed=value < 0)
        except OverflowError:
            pass
    raise ValueError(f"argument {k}: {value!r} does not fit a parameter of {parameter.bytes} bytes")
