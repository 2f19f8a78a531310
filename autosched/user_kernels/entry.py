"""Check that a user's kernel compiles, and that its entry function accepts the arguments listed in the kernel file."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import islice

from autosched.user_kernels import KernelFileError
from autosched.user_kernels.kernel_file import KernelArgument, KernelFile, PipelineStep
from autosched.user_kernels.problem import KernelProblem
from autosched.user_kernels.template import template
from measurements.compiler.compiler_choice import choose_compiler, headers_for_nvcc
from measurements.compiler.cuda_headers import missing_header
from measurements.compiler.nvrtc import NVCC, PTX_OPTIONS, NvrtcMissing, PtxOutput
from measurements.compiler.pool import error_reason
from measurements.compiler.ptx import CompilerStopped, compile_to_ptx
from measurements.emulator.architecture import HOPPER_ARCH, ptx_arch
from measurements.emulator.ptx.parser import PtxError, parse
from measurements.emulator.ptx.syntax import Module, Variable
from search_spaces.hardware.devices import Device
from search_spaces.launches.control_file import for_ptx
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule

_PATIENCE = 15.0  # in seconds; after a failed compilation that took longer, no other architecture is tried
_SURFACES = re.compile(r"^\s*(?:@!?%\w+\s+)?(?P<what>suld|sust|sured|suq)\.", re.MULTILINE)
# Matches texture instructions except the ones that tex2D and tex1Dfetch generate to read textures of linear memory.
_FETCHES = re.compile(
    r"^\s*(?:@!?%\w+\s+)?(?P<what>(?:tex|tld4|txq)\.(?!1d\.v4\.\w+\.s32|2d\.v4\.\w+\.(?:s32|f32))[\w.]*)", re.MULTILINE
)
_TEXTURES = re.compile(r"^\s*(?:@!?%\w+\s+)?tex\.", re.MULTILINE)
COMPILED_FIRST = 3  # number of schedules to compile; if all of these fail, the kernel is reported as broken


def check_entry(problem: Problem, schedules: Iterable[Schedule], device: Device) -> None:
    """Check a kernel file's kernel with the first of ``schedules`` that compiles.

    Does nothing for other problems, and without NVRTC. Raises KernelFileError if no schedule compiles, or if number,
    size or kind of the arguments differ from the entry function's parameters. The message is one line with file and
    line number.
    """
    if not isinstance(problem, KernelProblem):
        return
    file, refused = problem.file, ""
    kernel_template = template(file)
    for schedule in islice(schedules, COMPILED_FIRST):
        if schedule.template != kernel_template.name:
            continue  # skip schedules of other templates of the operator
        kernel = kernel_template.kernel(problem, schedule, device)
        began = time.monotonic()
        try:
            outputs = [_compiled(step) for step in kernel.steps]
        except NvrtcMissing:
            return
        except CompilerStopped as stopped:
            refused = refused or str(stopped)
        else:
            failed = next((n for n, output in enumerate(outputs) if output.text is None), None)
            if failed is None:
                file = file.under(schedule.values)
                for step, output in zip(file.steps, outputs, strict=True):
                    _check_arguments(file, step, kernel, output)
                return
            log = outputs[failed].log
            if missing_header(log) and _is_for_nvcc(kernel.steps[failed], outputs[failed]):
                raise KernelFileError(
                    f"{file.name} does not compile: NVRTC does not find {missing_header(log)}, but nvcc finds it: "
                    'write compiler = "nvcc" under [kernel]'
                )
            refused = refused or error_reason(log)
        if time.monotonic() - began > _PATIENCE:
            break
    if refused:
        raise KernelFileError(f"{file.name} does not compile: {refused}")


def _compiled(kernel: GeneratedKernel) -> PtxOutput:
    """Compile for the oldest architecture that the kernel appears to support. If that fails, compile for Hopper."""
    options = tuple(dict.fromkeys((*PTX_OPTIONS, *for_ptx(kernel.compile_options))))
    first, *fallbacks = dict.fromkeys((ptx_arch(kernel), HOPPER_ARCH))
    compiled = partial(
        compile_to_ptx, kernel.source, kernel.entry, headers=kernel.headers, options=options, limits=kernel.limits
    )
    output = compiled(arch=first)
    for arch in fallbacks:
        if output.text is None and output.seconds <= _PATIENCE:
            newer = compiled(arch=arch)
            output = output if newer.text is None else newer
    return output


def _is_for_nvcc(kernel: GeneratedKernel, failed: PtxOutput) -> bool:
    """Return True if a kernel compiles with nvcc but not with NVRTC, and its file does not select nvcc."""
    if NVCC in kernel.compile_options:
        return False
    options = (NVCC, *kernel.compile_options)
    by_nvcc = replace(kernel, headers=headers_for_nvcc(kernel.headers), compile_options=options)
    try:
        return choose_compiler(lambda: failed, lambda: _compiled(by_nvcc)).by_nvcc
    except CompilerStopped:
        return False


def _check_arguments(file: KernelFile, step: PipelineStep, kernel: GeneratedKernel, output: PtxOutput) -> None:
    text = output.text or ""
    try:
        module = parse(text)
        takes = module.functions[output.entry].parameters
    except (PtxError, KeyError):  # nothing can be checked without PTX, for example if no compiler is installed
        return
    _check_textures(file, step, text)
    _check_constants(file, kernel, module)
    by_name = {a.name: a for a in file.arguments}
    listed = tuple(by_name[name] for name in step.arguments)
    if len(takes) != len(listed):
        position = listed[min(len(takes), len(listed) - 1)].position
        raise KernelFileError(
            f"{position}: {step.entry} takes {len(takes)} arguments, but the file lists {len(listed)}"
        )
    for number, (parameter, argument) in enumerate(zip(takes, listed, strict=True), 1):
        if not _fits(parameter, argument):
            dtype_text = _dtype_text(argument)
            raise KernelFileError(
                f"{argument.position}: {argument.name} is {dtype_text}, but parameter {number} of {step.entry} is "
                f"{_described(parameter)}"
            )


def _check_textures(file: KernelFile, step: PipelineStep, text: str) -> None:
    if match := _SURFACES.search(text):
        raise KernelFileError(
            f"{file.name} reads or writes a surface ({match['what']}), which is not supported: use a pointer"
        )
    if match := _FETCHES.search(text):
        raise KernelFileError(
            f"{file.name} uses {match['what']}, but only textures of linear memory are supported: use tex2D<T>(x, y) "
            "or tex1Dfetch<T>(i)"
        )
    textures = [a for a in file.arguments if a.kind == "texture" and a.name in step.arguments]
    if _TEXTURES.search(text) and not textures:
        raise KernelFileError(
            f'{file.name} reads a texture: add an [[argument]] with kind = "texture" at the position of the '
            "function's cudaTextureObject_t parameter"
        )


def _check_constants(file: KernelFile, kernel: GeneratedKernel, module: Module) -> None:
    """Check that every ``__constant__`` variable of the source is filled, and large enough for its contents."""
    sizes = {o.name: o.bytes for o in kernel.symbols}
    keys = {a.name: a.position for a in file.arguments}
    declared = {_plain(v.name): v for v in module.variables if v.space == "const"}
    for name, size in sizes.items():
        if not re.search(rf"__constant__[^;]*\b{name}\b", file.source + "".join(t for _, t in file.headers)):
            raise KernelFileError(f"{keys[name]}: the source has no __constant__ variable {name!r}")
        if name in declared and size > declared[name].bytes:
            raise KernelFileError(
                f"{keys[name]}: {name} has {declared[name].bytes} bytes in the source, but the array has {size}"
            )
    for name, variable in declared.items():
        written = rf"__constant__[^;{{]*\b{name}\b[^;]*="
        if name in sizes or variable.initial or re.search(written, file.source):
            continue
        if not re.search(rf"__constant__[^;]*\b{name}\b", file.source + "".join(t for _, t in file.headers)):
            continue  # skip variables that the user's files do not declare: they belong to the compiler or to a library
        raise KernelFileError(
            f"{file.name}: nothing fills the __constant__ variable {name}, which would be all zeros: list it as an "
            f'[[argument]] with kind = "constant"'
        )


def _plain(name: str) -> str:
    """Return a variable's name in the source: the last component of its mangled name."""
    parts = re.findall(r"(\d+)([A-Za-z_]\w*)", name) if name.startswith("_Z") else []
    return next((text[: int(n)] for n, text in reversed(parts) if len(text) >= int(n) > 0), name)


def _fits(parameter: Variable, argument: KernelArgument) -> bool:
    """Return True if an argument's size and type match its parameter. PTX declares structs and f16 as bytes."""
    if argument.struct is not None:
        return parameter.bytes == len(argument.struct.content) and parameter.type[0] not in "fsu"
    is_scalar = argument.kind == "scalar"
    if parameter.bytes != (argument.dtype.bytes if is_scalar else 8):
        return False
    if parameter.type[0] not in "fsu":
        return True
    return (parameter.type[0] == "f") == (is_scalar and argument.dtype.is_float)


def _dtype_text(argument: KernelArgument) -> str:
    if argument.struct is not None:
        return f"a struct of {len(argument.struct.content)} bytes"
    return argument.dtype.name if argument.kind == "scalar" else "a pointer"


def _described(parameter: Variable) -> str:
    bits = 8 * parameter.bytes
    match parameter.type[0]:
        case "f":
            return f"a float of {bits} bits"
        case "s" | "u":
            return f"a whole number of {bits} bits" + (" or a pointer" if bits == 64 else "")
        case _:
            return f"{parameter.bytes} bytes"
