"""Anyone's kernel on the CPU, from its CUDA source, its PTX, or a Triton kernel compiled for a GPU that is not here."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autosched.verify.emulate.device_source import device_part, has_host_code, nvcc, source_by_nvcc
from autosched.verify.emulate.emulated_launch import EmulatedLaunch
from autosched.verify.emulate.kernel_signature import find_kernel, parameters_of
from autosched.verify.emulate.launch_memory import pass_arguments, size_of
from autosched.verify.emulate.launch_values import Im2col, Struct, Surface, TensorMapOf, Texture
from autosched.verify.launch import LaunchUnderTest
from autosched.verify.launch_plan import THOROUGH, TWO_ORDERS, LaunchPlan
from autosched.verify.launches import verify_launch
from autosched.verify.verdict import Verdict
from measurements.compiler.cuda_headers import missing_header, stand_ins
from measurements.compiler.nvrtc import PTX_OPTIONS
from measurements.compiler.pool import error_reason
from measurements.compiler.ptx import CompilerStopped, compile_to_ptx
from measurements.emulator import (
    Emulation,
    Order,
    Suppression,
    suppress,
)
from measurements.emulator.architecture import source_arch
from measurements.emulator.findings import of_compiled_code
from measurements.emulator.ptx.parser import PtxError, parse
from measurements.emulator.ptx.syntax import Function, Module, Number
from measurements.files.demangle import demangled
from search_spaces.arrays import Array
from search_spaces.launches.headers import Headers
from search_spaces.launches.launch import Launch, Size3
from search_spaces.programs.builder import Program
from search_spaces.spaces.schedule import Schedule

__all__ = ["EmulatedLaunch", "Im2col", "Struct", "Surface", "TensorMapOf", "Texture", "emulate", "is_ptx"]

Size = int | Sequence[int]


def emulate(
    program: Any,
    *,
    kernel: str = "",
    arguments: Sequence[Any],
    grid: Size | None = None,
    block: Size | None = None,
    shared_bytes: int | None = None,
    outputs: Sequence[int] = (),
    aliases: Mapping[int, int | tuple[int, int]] | None = None,
    symbols: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
    time_limit: float = 60.0,
    perturb: bool = False,
    order: Order | None = None,
    launches: int = 1,
    full: bool = False,
    suppressions: Sequence[Suppression] = (),
    device: str = "",
    schedule: Schedule | Mapping[str, int | str] | None = None,
) -> EmulatedLaunch:
    """Run one launch of a kernel on the CPU, instruction by instruction of its PTX, and say what is wrong with it.

    Args:
        program: CUDA C++, PTX text, a tile program, or what ``triton.compile`` returned for a CUDA target. NVRTC
            compiles the device part of CUDA C++; what the host runs is left out, and standard headers may be included.
        kernel: The name of its ``__global__`` function, or a name expression (``"scale<float, 4>"``); may be left out
            where there is one. In PTX a kernel is found by its mangled name, or by its name in C++.
        arguments: In the order of the parameters. A numpy array is a pointer to it; arrays that overlap on the host (a
            view, the same array twice) do so for the kernel. A number or numpy scalar is converted as C would, None is
            a null pointer, a list of arrays an array of pointers, ``Struct`` a struct (``numpy.void`` and bytes are
            structs without pointers), ``TensorMapOf`` a tensor map, ``Texture`` and ``Surface`` are such objects. The
            arrays given are not changed. Of the pointers that Triton adds, that of its global scratch memory is made
            where the kernel needs it; others that a compiler adds are null. An array whose type is not that of the
            parameter is refused, where the source or a mangled name says what that is.
        grid: One to three sizes, in blocks; None for a tile program, which knows its launch: the arrays, in its order,
            say its sizes.
        block: One to three sizes, in threads; None for a Triton kernel, which knows it.
        shared_bytes: Dynamic shared memory of a block; None for 0, and for a Triton kernel, which knows it.
        outputs: Positions of arrays that the kernel fills: what is read or left before it is written is a finding.
        aliases: ``{3: 0}`` passes the array of argument 0 as argument 3, too, as in place, and ``{3: (0, 64)}`` its
            part from byte 64 on; what stands there is not used.
        symbols: Contents of ``__device__``, ``__constant__`` and ``__managed__`` variables by name, which come back as
            ``symbols`` of the result; None for one that is only to be read.
        headers: Texts by include name. CUDA's own headers are found by themselves where a toolkit, or the wheel
            nvidia-cuda-runtime, is installed.
        options: Of NVRTC.
        time_limit: CPU seconds of one run of all ``launches``, without the compile.
        perturb: Approximate instructions (``ex2.approx``, ``rcp.approx``) err as much as the PTX ISA allows.
        order: Of blocks, and with a seed also of the turns of warps, lanes and atomics: what waits for nothing, and is
            right by the luck of an order, is wrong in another one (``measurements.emulator.Order``). None: ascending,
            and once more at random.
        launches: How often the kernel runs, one after another, each time on what the one before has left, but for
            ``outputs``, which must be written again: what a launch does not leave as it found it shows.
        full: Whether it also runs in every order, twice in a row, and with approximate instructions that err.
        suppressions: Findings that are expected (``measurements.emulator.Suppression``).
        device: That a tile program is compiled for; "" for h200, and for everything else.
        schedule: Of a tile program; None for the one that the time model chooses, and for everything else.

    Returns:
        The status, the findings, the counts, and the arrays as the launch left them. A kernel that does not compile,
        crashes or never ends is a status.

    Raises:
        ValueError: Arguments that do not fit the kernel.
        NvrtcMissing: CUDA source without NVRTC.
        HostFailure: This machine cannot emulate.
    """
    if full and order is not None:
        raise ValueError("full runs every order: leave order out, or full")
    plan = replace(THOROUGH, perturb=True) if full else TWO_ORDERS
    plan = replace(plan, time_limit=time_limit, launches=launches, perturb_all=perturb)
    plan = plan if order is None else replace(plan, orders=(order,))
    if isinstance(program, Program):
        if kernel or grid is not None or block is not None or outputs or aliases or symbols or headers or options:
            raise ValueError(
                "a tile program knows its launch: give arguments, and device and schedule where it matters"
            )
        return _emulated_program(program, arguments, device or "h200", schedule, plan, suppressions)
    if device or schedule is not None:
        raise ValueError("device and schedule are of a tile program")
    if grid is None:
        raise ValueError("a launch needs its grid: the blocks of it, for example grid=108")
    text, entry, failed = _ptx_of(program, kernel, headers or {}, options)
    if failed is not None:
        return EmulatedLaunch(Verdict.of_emulation(failed), (None,) * len(arguments))
    block, shared_bytes = _launch_of(program, block, shared_bytes)
    try:
        module = parse(text)
    except PtxError as error:
        failed = Emulation("compile_error", {}, (), (), (), reason=str(error))
        return EmulatedLaunch(Verdict.of_emulation(failed), (None,) * len(arguments))
    entry = find_kernel(entry, module.kernels) if entry else _only(module)
    function = module.functions[entry]
    _check_block(function, size_of(block))
    parameters = function.parameters
    given = _aliased(arguments, aliases or {})
    if len(parameters) > len(given):
        given += _scratch(program, math.prod(size_of(grid)))
    source = program if isinstance(program, str) and not is_ptx(program) else ""
    added = len(parameters) - len(given)  # by a compiler, which adds none to CUDA source
    if added < 0 or (added and source) or any(p.bytes != 8 for p in parameters[len(given) :]):
        count = "1 argument" if len(parameters) == 1 else f"{len(parameters)} arguments"
        raise ValueError(f"the kernel takes {count}, not {len(given)}")
    signature = parameters_of(source, entry, len(parameters))
    contents = {name: _content(module, name, value) for name, value in _named(module, symbols or {}).items()}
    passed = pass_arguments(parameters, signature, [*given, *[0] * added], outputs, contents)
    launch = Launch(
        entry=entry,
        arguments=passed.arguments,
        grid=size_of(grid),
        block=size_of(block),
        dynamic_shared_bytes=shared_bytes,
    )

    is_source = isinstance(program, str) and not is_ptx(program)
    under_test = LaunchUnderTest(text, passed.inputs, launch, passed.memory)
    if not is_source:
        under_test = replace(under_test, read=of_compiled_code)
    verdict = _suppressed(verify_launch(under_test, plan), suppressions)
    run = verdict.emulation
    arrays = tuple(passed.result(given[k] if k in (aliases or {}) else a, run.outputs) for k, a in enumerate(arguments))
    left = {}
    for asked, name in zip(symbols or {}, contents, strict=True):
        array = passed.memory.symbols[name]
        if array in run.outputs:
            left[asked] = run.outputs[array].view(contents[name].dtype).reshape(contents[name].shape)
    return EmulatedLaunch(verdict, arrays, left)


def _emulated_program(
    program: Program,
    arguments: Sequence[Any],
    device: str,
    schedule: Schedule | Mapping[str, int | str] | None,
    plan: LaunchPlan,
    suppressions: Sequence[Suppression],
) -> EmulatedLaunch:
    from autosched.verify.emulate.tile_program import inputs_of, kernel_of  # with spaces and time models

    problem, kernel = kernel_of(program, arguments, device, schedule)
    inputs = inputs_of(problem, arguments)

    verdict = _suppressed(verify_launch(LaunchUnderTest(kernel, inputs), plan), suppressions)
    left = verdict.emulation.outputs
    arrays = tuple(
        left[name].view(given.dtype).reshape(given.shape) if name in left else given if left else None
        for (name, _), given in zip(program.arguments, arguments, strict=True)
    )
    return EmulatedLaunch(verdict, arrays)


def _suppressed(verdict: Verdict, suppressions: Sequence[Suppression]) -> Verdict:
    """Return the verdict without the findings that are expected."""
    if not suppressions:
        return verdict
    emulation = suppress(verdict.emulation, suppressions)
    return replace(verdict, emulation=emulation, status=emulation.status, reason=emulation.reason)


def _aliased(arguments: Sequence[Any], aliases: Mapping[int, int | tuple[int, int]]) -> list[Any]:
    given = list(arguments)
    for k, alias in aliases.items():
        first, offset = alias if isinstance(alias, tuple) else (alias, 0)
        both = [given[n] for n in (first, k) if 0 <= n < len(given)]
        if first >= k or first in aliases or len(both) < 2 or not all(isinstance(a, np.ndarray) for a in both):
            raise ValueError(f"aliases: argument {k} cannot be the array of argument {first}: name one in front of it")
        if not offset and both[0].nbytes != both[1].nbytes:
            raise ValueError(f"aliases: arguments {first} and {k} have {both[0].nbytes} and {both[1].nbytes} bytes")
        if not 0 <= offset <= both[0].nbytes or offset % both[1].dtype.itemsize:
            raise ValueError(f"aliases: argument {first} has no element at byte {offset}")
        if not both[0].flags.c_contiguous:
            raise ValueError(f"aliases: argument {first} is not a contiguous array")
        part = both[0].reshape(-1).view(np.uint8)[offset:]
        given[k] = part[: part.size // both[1].dtype.itemsize * both[1].dtype.itemsize].view(both[1].dtype)
        if not offset:
            given[k] = given[k].reshape(both[1].shape)
    return given


def _named(module: Module, symbols: Mapping[str, Any]) -> dict[str, Any]:
    """By the names of variables in the PTX. Raises ValueError for one that is not there."""
    own = [v.name for v in module.variables if v.space in ("global", "const")]
    names = {}
    for asked, value in symbols.items():
        found = [n for n in own if n == asked] or [n for n in own if demangled(n).rpartition("::")[2] == asked]
        if len(found) != 1:
            known = ", ".join(demangled(n) for n in own if not n.startswith(("$", "__"))) or "none"
            raise ValueError(f"symbols: the program has {'no' if not found else 'several'} {asked}; it has {known}")
        names[found[0]] = value
    return names


def _content(module: Module, name: str, value: Any) -> Array:
    """Return what a variable holds before the launch; where it is only to be read, what the program gives it."""
    variable = next(v for v in module.variables if v.name == name)
    if value is None:
        data = bytearray(variable.bytes)
        for k, initial in enumerate(variable.initial):
            if not isinstance(initial, Number):
                raise ValueError(f"symbols: {name} holds addresses that the program gives it: it cannot be read")
            size = variable.element_bytes
            data[k * size : (k + 1) * size] = (initial.bits & (1 << 8 * size) - 1).to_bytes(size, "little")
        letter = {"f": "f", "s": "i"}.get(variable.type[0], "u")
        return np.frombuffer(bytes(data), dtype=f"{letter}{variable.element_bytes}")
    array = np.ascontiguousarray(value)
    if array.nbytes != variable.bytes:
        raise ValueError(f"symbols: {name} has {variable.bytes} bytes, and its value {array.nbytes}")
    return array


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
    whole = program
    if has_host_code(program):
        program = device_part(program)
    found = Headers.of(stand_ins((program, *headers.values())) | dict(headers))
    try:
        output = compile_to_ptx(program, kernel, source_arch(program, found), found, (*PTX_OPTIONS, *options))
    except CompilerStopped as stopped:
        return "", "", Emulation(stopped.status, {}, (), (), (), reason=str(stopped))
    if output.text is None and (header := missing_header(output.log)) and nvcc() is not None:
        text, _ = source_by_nvcc(whole, source_arch(program, found), Headers.of(headers), options)
        if text is not None:
            warnings.warn(f"nvcc compiled the source, as NVRTC does not find {header}", stacklevel=3)
            return text, kernel, None
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
    """Return the global memory that a Triton kernel asks for, of all its blocks: there it makes its tensor
    descriptors."""
    metadata = getattr(program, "metadata", None)
    size = int(getattr(metadata, "global_scratch_size", 0) or 0)
    return [np.zeros(size * blocks, dtype=np.uint8)] if size else []


def _only(module: Module) -> str:
    if len(module.kernels) != 1:
        if not module.kernels:
            raise ValueError("the program has no kernel")
        known = ", ".join(map(demangled, module.kernels))
        raise ValueError(f"name one of the kernels with kernel= or --kernel: {known}")
    return module.kernels[0]


def _check_block(function: Function, block: Size3) -> None:
    """Raise ValueError where the driver would refuse the launch: ``__launch_bounds__``, ``__block_size__``."""
    most, exact = function.most_threads, function.exact_threads
    if most and math.prod(block) > math.prod(most):
        raise ValueError(
            f"{function.name} is compiled for at most {math.prod(most)} threads a block (__launch_bounds__), "
            f"not for {math.prod(block)}"
        )
    if exact and block != exact:
        raise ValueError(f"{function.name} is compiled for blocks of {exact} threads, not of {block}")
