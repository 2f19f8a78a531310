"""Emulate any kernel on the CPU: CUDA source, PTX, or a Triton kernel. No GPU is needed."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autosched.verify.emulate.device_source import device_part, has_host_code
from autosched.verify.emulate.emulated_launch import EmulatedLaunch
from autosched.verify.emulate.kernel_signature import find_kernel, parameters_of
from autosched.verify.emulate.launch_memory import pass_arguments, size_of
from autosched.verify.emulate.launch_values import Im2col, Struct, Surface, TensorMapOf, Texture, arrays_in
from autosched.verify.emulate.options import EmulatedLaunchOptions
from autosched.verify.launch import LaunchUnderTest
from autosched.verify.launch_limits import why_not_cooperative
from autosched.verify.launches import verify_launch
from autosched.verify.verdict import Verdict
from measurements.compiler import nvcc
from measurements.compiler.compiler_choice import choose_compiler, report_nvcc
from measurements.compiler.cuda_headers import stand_ins
from measurements.compiler.nvrtc import PTX_OPTIONS, PtxOutput
from measurements.compiler.pool import error_reason
from measurements.compiler.ptx import CompilerStopped, compile_to_ptx
from measurements.emulator import Emulation
from measurements.emulator.architecture import BLACKWELL_ARCH, HOPPER_ARCH, source_arch
from measurements.emulator.findings import of_compiled_code
from measurements.emulator.memory import Unfinished
from measurements.emulator.ptx.parser import PtxError, parse
from measurements.emulator.ptx.syntax import Function, Module, Number
from measurements.files.demangle import demangled
from search_spaces.arrays import Array
from search_spaces.gathered import gathered
from search_spaces.hardware.devices import device
from search_spaces.launches.headers import Headers
from search_spaces.launches.launch import Launch, Size3
from search_spaces.programs.builder import Program

__all__ = ["EmulatedLaunch", "Im2col", "Struct", "Surface", "TensorMapOf", "Texture", "emulate", "is_ptx"]

_LINE_DIRECTIVE = re.compile(r'#line 1 "([^"\n]+)"')


def emulate(
    program: Any, arguments: Sequence[Any], base: EmulatedLaunchOptions | None = None, **keywords: Any
) -> EmulatedLaunch:
    """Run one launch of a kernel on the CPU, instruction by instruction of its PTX, and report its faults.

    Args:
        program: CUDA C++, PTX text, a tile program, or the result of ``triton.compile`` for a CUDA target. NVRTC
            compiles the device code of CUDA C++. If that fails and nvcc is installed, nvcc compiles the whole file.
            Standard headers may be included.
        arguments: Arguments in the order of the parameters. A numpy array is passed as a pointer. Arrays that overlap
            on the host (a view, the same array twice) also overlap for the kernel. Numbers and numpy scalars are
            converted as in C. None is a null pointer, and a list of arrays is an array of pointers. ``Struct`` is a
            struct; ``numpy.void`` and bytes are structs without pointers. ``TensorMapOf`` is a tensor map, ``Texture``
            a texture object, and ``Surface`` a surface object. The arrays are not modified. Triton's global scratch
            memory is allocated if the kernel needs it. Other pointer parameters added by a compiler are null. An array
            must have the type of its parameter if the source or a mangled name declares it. The arguments of a tile
            program are its arrays and scalars, in the order in which the program declares them.
        base: Options whose fields the keywords replace. Default: ``EmulatedLaunchOptions()``.
        keywords: Fields of ``EmulatedLaunchOptions``, such as ``grid=2``.

    Returns:
        The status, the findings, the counts, and the arrays after the launch. The status also reports a kernel that
        does not compile, crashes or never ends.

    Raises:
        TypeError: An unknown option, or ``base`` of another type.
        ValueError: An invalid option, or arguments that do not fit the kernel.
        NvrtcMissing: ``program`` is CUDA source, but NVRTC is not installed.
        HostFailure: This machine cannot run the emulator.
    """
    options = gathered(EmulatedLaunchOptions, "base", base, keywords)
    if isinstance(program, Program):
        options.check_tile_program()
        return _emulated_program(program, arguments, options)
    options.check_launch()
    aliases, symbols = options.aliases or {}, options.symbols or {}
    text, entry, failed = ptx_of(program, options)
    if failed is not None:
        return EmulatedLaunch(Verdict.of_emulation(failed), (None,) * len(arguments))
    grid, block, shared_bytes = _launch_sizes(program, options)
    try:
        module = parse(text)
    except PtxError as error:
        failed = Emulation("compile_error", {}, (), (), (), reason=str(error))
        return EmulatedLaunch(Verdict.of_emulation(failed), (None,) * len(arguments))
    entry = find_kernel(entry, module.kernels) if entry else _only(module)
    function = module.functions[entry]
    _check_block(function, block)
    parameters = function.parameters
    all_arguments = _aliased(arguments, aliases)
    if len(parameters) > len(all_arguments):
        all_arguments += _scratch(program, math.prod(grid))
    source = program if isinstance(program, str) and not is_ptx(program) else ""
    # a kernel compiled from CUDA source has no parameters added by the compiler
    added = len(parameters) - len(all_arguments)
    if added < 0 or (added and source) or any(p.bytes != 8 for p in parameters[len(all_arguments) :]):
        count = "1 argument" if len(parameters) == 1 else f"{len(parameters)} arguments"
        raise ValueError(
            f"the kernel takes {count}, not {len(all_arguments)}: give one for each parameter, in order "
            "(arguments=, or --argument of autosched verify)"
        )
    signature = parameters_of(source, entry, len(parameters))
    contents = {name: _content(module, name, value) for name, value in _named(module, symbols).items()}
    passed = pass_arguments(parameters, signature, [*all_arguments, *[0] * added], options.outputs, contents)
    launch = Launch(
        entry=entry,
        arguments=passed.arguments,
        grid=grid,
        block=block,
        cluster=(1, 1, 1) if options.cluster is None else size_of(options.cluster),
        dynamic_shared_bytes=shared_bytes,
        cooperative=options.cooperative,
        dependent=options.dependent is not False,
    )
    if launch.cooperative and (reason := why_not_cooperative(launch, device(options.device or "h200"), text)):
        raise ValueError(reason)
    memory = passed.memory
    if not isinstance(options.dependent, bool):
        arrays_in_front = passed.names_of([_argument(all_arguments, k) for k in options.dependent])
        memory = replace(memory, unfinished=tuple(Unfinished(name) for name in sorted(arrays_in_front)))

    is_source = isinstance(program, str) and not is_ptx(program)
    under_test = LaunchUnderTest(text, passed.inputs, launch, memory)
    if not is_source:
        under_test = replace(under_test, read=of_compiled_code)
    verdict = verify_launch(under_test, options.plan)
    run = verdict.emulation
    arrays = tuple(passed.result(all_arguments[k] if k in aliases else a, run.outputs) for k, a in enumerate(arguments))
    results = {}
    for symbol, name in zip(symbols, contents, strict=True):
        array = passed.memory.symbols[name]
        if array in run.outputs:
            results[symbol] = run.outputs[array].view(contents[name].dtype).reshape(contents[name].shape)
    return EmulatedLaunch(verdict, arrays, results)


def _emulated_program(program: Program, arguments: Sequence[Any], options: EmulatedLaunchOptions) -> EmulatedLaunch:
    from autosched.verify.emulate.tile_program import (
        inputs_of,
        kernel_of,
        parameters_of,
    )  # imported lazily, because tile_program loads the schedule spaces and the cost models

    problem, kernel = kernel_of(program, arguments, options.device or "h200", options.schedule)
    inputs = inputs_of(problem, arguments)

    verdict = verify_launch(LaunchUnderTest(kernel, inputs), options.plan)
    columns = {o.name: o.columns for o in problem.operands()}
    outputs = {name: array[..., : columns.get(name)] for name, array in verdict.emulation.outputs.items()}
    arrays = tuple(
        outputs[name].view(argument.dtype).reshape(argument.shape) if name in outputs else argument if outputs else None
        for name, argument in zip(parameters_of(program), arguments, strict=True)
    )
    return EmulatedLaunch(verdict, arrays)


def _argument(arguments: Sequence[Any], position: int) -> Any:
    if not 0 <= position < len(arguments) or not arrays_in(arguments[position]):
        raise ValueError(f"dependent: argument {position} is not an array: use the positions of arrays, or True")
    return arguments[position]


def _aliased(arguments: Sequence[Any], aliases: Mapping[int, int | tuple[int, int]]) -> list[Any]:
    aliased = list(arguments)
    for k, alias in aliases.items():
        first, offset = alias if isinstance(alias, tuple) else (alias, 0)
        both = [aliased[n] for n in (first, k) if 0 <= n < len(aliased)]
        if first >= k or first in aliases or len(both) < 2 or not all(isinstance(a, np.ndarray) for a in both):
            raise ValueError(
                f"aliases: argument {k} cannot be the array of argument {first}: choose an array argument that has a "
                f"smaller position and no alias itself"
            )
        if not offset and both[0].nbytes != both[1].nbytes:
            raise ValueError(
                f"aliases: arguments {first} and {k} differ in size: {both[0].nbytes} and {both[1].nbytes} bytes"
            )
        if not 0 <= offset <= both[0].nbytes or offset % both[1].dtype.itemsize:
            raise ValueError(
                f"aliases: byte offset {offset} of argument {first} is out of range or misaligned for argument {k}"
            )
        if not both[0].flags.c_contiguous:
            raise ValueError(f"aliases: argument {first} is not a contiguous array")
        part = both[0].reshape(-1).view(np.uint8)[offset:]
        aliased[k] = part[: part.size // both[1].dtype.itemsize * both[1].dtype.itemsize].view(both[1].dtype)
        if not offset:
            aliased[k] = aliased[k].reshape(both[1].shape)
    return aliased


def _named(module: Module, symbols: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of module variables by their names in the PTX. Raises ValueError for an unknown name."""
    own = [v.name for v in module.variables if v.space in ("global", "const")]
    names = {}
    for symbol, value in symbols.items():
        candidates = [n for n in own if n == symbol] or [n for n in own if demangled(n).rpartition("::")[2] == symbol]
        if len(candidates) != 1:
            known = ", ".join(demangled(n) for n in own if not n.startswith(("$", "__"))) or "none"
            raise ValueError(
                f"symbols: the program has {'no' if not candidates else 'several'} variables named {symbol}; "
                f"it has {known}"
            )
        names[candidates[0]] = value
    return names


def _content(module: Module, name: str, value: Any) -> Array:
    """Return the contents of a module variable before the launch. For None, use the initial value in the PTX."""
    variable = next(v for v in module.variables if v.name == name)
    if value is None:
        data = bytearray(variable.bytes)
        for k, initial in enumerate(variable.initial):
            if not isinstance(initial, Number):
                raise ValueError(
                    f"symbols: {name} is initialised with addresses, so None is not supported: pass its contents"
                )
            size = variable.element_bytes
            data[k * size : (k + 1) * size] = (initial.bits & (1 << 8 * size) - 1).to_bytes(size, "little")
        letter = {"f": "f", "s": "i"}.get(variable.type[0], "u")
        return np.frombuffer(bytes(data), dtype=f"{letter}{variable.element_bytes}")
    array = np.ascontiguousarray(value)
    if array.nbytes != variable.bytes:
        raise ValueError(f"symbols: {name} has {variable.bytes} bytes, but its value has {array.nbytes}")
    return array


def is_ptx(program: str) -> bool:
    """Return True if a text is PTX rather than CUDA source."""
    return ".version" in program and ".target" in program and "__global__" not in program


def ptx_of(program: Any, options: EmulatedLaunchOptions) -> tuple[str, str, Emulation | None]:
    """Return the PTX text, and the kernel's name in it ("" for the only kernel).

    If compiling fails, the third value is an emulation with the error. Otherwise it is None.
    """
    kernel, headers = options.kernel, options.headers or {}
    compiled = getattr(program, "asm", None)
    if isinstance(compiled, Mapping):
        if "ptx" not in compiled:
            raise ValueError("the compiled kernel has no PTX: compile it for a CUDA target")
        return str(compiled["ptx"]), kernel, None
    if not isinstance(program, str):
        raise ValueError(f"cannot emulate {type(program).__name__}: pass CUDA source, PTX or a compiled Triton kernel")
    if is_ptx(program):
        return program, kernel, None
    host_code, compile_options = has_host_code(program), (*PTX_OPTIONS, *options.options)
    device_code = device_part(program) if host_code else program
    all_headers = Headers.of(stand_ins((device_code, *headers.values()), options.options) | dict(headers))
    arch = _arch(device_code, all_headers, options)

    def by_nvcc() -> PtxOutput:
        return nvcc.compile_to_ptx(program, kernel, arch, Headers.of(headers), (*compile_options, f"-I{os.getcwd()}"))

    try:
        choice = choose_compiler(
            lambda: compile_to_ptx(device_code, kernel, arch, all_headers, compile_options),
            by_nvcc,
            host_code=host_code,
        )
    except CompilerStopped as stopped:
        return "", "", Emulation(stopped.status, {}, (), (), (), reason=str(stopped))
    output = choice.output
    report_nvcc(_file_name(program), choice)
    if output.text is None:
        failed = Emulation("compile_error", {}, (), (), (), reason=error_reason(output.log), log=output.log)
        return "", "", failed
    return output.text, output.entry or kernel, None


def _file_name(source: str) -> str:
    """Return the file name in the first line directive of a source, for messages."""
    match = _LINE_DIRECTIVE.match(source)
    return match[1] if match else "the source"


def _arch(source: str, headers: Headers, options: EmulatedLaunchOptions) -> str:
    """Return the architecture to compile a source for. Launches with clusters need an architecture with clusters."""
    arch = source_arch(source, headers)
    clusters = options.cluster is not None and size_of(options.cluster) != (1, 1, 1)
    return HOPPER_ARCH if clusters and arch != BLACKWELL_ARCH else arch


def _launch_sizes(program: Any, options: EmulatedLaunchOptions) -> tuple[Size3, Size3, int]:
    """Return grid, block and dynamic shared memory. A compiled Triton kernel specifies block and shared memory."""
    metadata = getattr(program, "metadata", None)
    block, shared_bytes = options.block, options.shared_bytes
    if block is None:
        if metadata is None:
            raise ValueError("block is missing: specify the number of threads of a block, for example block=256")
        block = 32 * int(metadata.num_warps)
    if shared_bytes is None:
        shared_bytes = int(metadata.shared) if metadata is not None else 0
    return size_of(options.grid), size_of(block), shared_bytes


def _scratch(program: Any, blocks: int) -> list[Array]:
    """Return the global scratch memory of all blocks of a Triton kernel, in which it creates tensor descriptors."""
    metadata = getattr(program, "metadata", None)
    size = int(getattr(metadata, "global_scratch_size", 0) or 0)
    return [np.zeros(size * blocks, dtype=np.uint8)] if size else []


def _only(module: Module) -> str:
    if len(module.kernels) != 1:
        if not module.kernels:
            raise ValueError("the program has no kernel")
        known = ", ".join(map(demangled, module.kernels))
        raise ValueError(f"the program has several kernels: select one with kernel= or --kernel: {known}")
    return module.kernels[0]


def _check_block(function: Function, block: Size3) -> None:
    """Raise ValueError if the block violates ``__launch_bounds__`` or ``__block_size__``, as the driver would."""
    most, exact = function.most_threads, function.exact_threads
    if most and math.prod(block) > math.prod(most):
        raise ValueError(
            f"{function.name} is compiled for at most {math.prod(most)} threads per block (__launch_bounds__), not "
            f"{math.prod(block)}"
        )
    if exact and block != exact:
        raise ValueError(f"{function.name} is compiled for blocks of {exact} threads, not of {block}")
