"""A planted fault: the edit, the schedule in which it is planted, and its verification."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import re
import sys
import time
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, cast

from measurements.files.work_folders import process_folder
from search_spaces.catalogue import template
from search_spaces.hardware.devices import Device, device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers, include_dir
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import KernelTemplate

# If ``Fault.header`` has this value, the fault is planted in the Python module of the operator.
PROGRAM = "the tile program"
# If ``Fault.header`` has this value, the fault is planted in the generated CUDA, and ``old`` is a regular expression.
CUDA = "the generated CUDA"
SAMPLED = 6000  # maximum number of schedules to sample until one of them executes the edited line

Values = Mapping[str, Any]  # for each parameter, its value or a list of possible values
Host = Callable[[GeneratedKernel], GeneratedKernel]


@dataclass(frozen=True)
class Fault:
    """A fault of device code (``new`` replaces ``old``) or of host code (``host`` is the error in the launch).

    ``old`` occurs once in ``header`` (below include/autosched) or its folder, in the tile program, or in the generated
    CUDA. ``values`` describes the schedule in which the fault is planted.
    """

    name: str
    kind: str  # indices, bounds, sizes, orders, proxies, barriers, values, epilogue, scales, stream-K, host or device
    template: str
    problem: Problem
    values: Values
    header: str = ""
    old: str = ""
    new: str = ""
    host: Host | None = None
    device: str = "h200"

    @property
    def where(self) -> Device:
        return device(self.device)

    def schedule(self) -> Schedule:
        return _schedule(self.template, self.problem, self.device, tuple(sorted(self.values.items())))

    def planted(self) -> KernelTemplate:
        """Return a template that generates kernels with the fault, for problems of every size."""
        right = template(self.template)
        lower, headers = right.lower, Headers.of({})
        if self.header not in ("", PROGRAM, CUDA):
            headers = edited(f"autosched/{self.header}", self.old, self.new)

        def wrong(problem: Any, config: Any, where: Device) -> GeneratedKernel:
            if self.header == PROGRAM:
                return lower(with_faulty_program(problem, self.old, self.new), config, where)
            kernel = lower(problem, config, where)
            if self.header == CUDA:
                kernel = replace(kernel, source=re.sub(self.old, self.new, kernel.source))
            elif self.header:
                kernel = replace(kernel, headers=headers)
            return kernel if self.host is None else self.host(kernel)

        return replace(right, lower=wrong)


@cache
def _schedule(name: str, problem: Problem, device_name: str, values: tuple[tuple[str, Any], ...]) -> Schedule:
    space = template(name).space(problem, device(device_name))
    for schedule in space.sample(SAMPLED, 0):
        if all(schedule[p] in v if isinstance(v, tuple) else schedule[p] == v for p, v in values):
            return schedule
    raise ValueError(f"no schedule of {name} for {problem.key()} has {dict(values)}")


def with_faulty_program(problem: Problem, old: str, new: str) -> Problem:
    """Return the problem with an edited module of its operator, or an edited module that operators share.

    Compare results of the returned problem's kernels with the reference of the original problem, since the edit may
    also change the reference.

    Args:
        problem: Problem of a tile operator.
        old: Text that occurs once in the module of the problem, or else in a module of its package.
        new: Text that replaces it.

    Raises:
        ValueError: ``old`` does not occur exactly once.
    """
    faulty_type = _faulty_type(type(problem), old, new)
    return faulty_type(**{f.name: getattr(problem, f.name) for f in fields(problem) if f.init})


@cache
def _faulty_type(right: type[Problem], old: str, new: str) -> type[Problem]:
    module = cast(types.ModuleType, inspect.getmodule(right))
    if old in inspect.getsource(module):
        return cast(type[Problem], getattr(_faulty_module(module, old, new), right.__name__))
    package = [m for name, m in sys.modules.items() if name.startswith(f"{module.__package__}.")]
    shared = [m for m in package if old in inspect.getsource(m)]
    if len(shared) != 1:
        raise ValueError(f"{len(shared)} modules of {module.__package__} have {old!r}")
    sys.modules[shared[0].__name__] = _faulty_module(shared[0], old, new)
    try:
        return cast(type[Problem], getattr(_faulty_module(module, "", ""), right.__name__))
    finally:
        sys.modules[shared[0].__name__] = shared[0]


def _faulty_module(right: types.ModuleType, old: str, new: str) -> types.ModuleType:
    """Return a module with edited text; without edits if ``old`` and ``new`` are empty."""
    text = inspect.getsource(right)
    if old and text.count(old) != 1:
        raise ValueError(f"{right.__name__} has {text.count(old)} occurrences instead of one: {old!r}")
    text = text.replace(old, new) if old else text
    name = f"{right.__name__}_faulty"
    # A program's version is computed from the text of its file, which is read again later. So the file must exist as
    # long as this process.
    folder = process_folder("planted-fault") / hashlib.sha256(text.encode()).hexdigest()
    folder.mkdir(exist_ok=True)
    file = folder / f"{right.__name__.rpartition('.')[2]}.py"
    file.write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up the types of fields in sys.modules
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


def edited(header: str, old: str, new: str) -> Headers:
    """Return all headers, with ``old`` replaced by ``new`` in ``header`` or the files in its folder.

    Raises:
        ValueError: ``old`` does not occur exactly once.
    """
    headers = Headers.from_folder(include_dir())
    folder = header.removesuffix(".cuh") + "/"
    parts = {n: text for n, text in headers.files if n == header or n.startswith(folder)}
    count = sum(text.count(old) for text in parts.values())
    if count != 1:
        raise ValueError(f"{old!r} occurs {count} times in {header} and its folder, but must occur once")
    return headers | Headers.of({n: text.replace(old, new) for n, text in parts.items() if old in text})


def judge(fault: Fault, depth: str) -> dict[str, Any]:
    """Plant the fault, and verify the faulty schedule at ``depth``. Return the result and the seconds."""
    from autosched.verify.schedules import verify_one
    from benchmarks.emulator.speed import cpu

    schedule = fault.schedule()
    started, used = time.monotonic(), cpu()
    done = verify_one(fault.planted(), fault.problem, schedule, fault.where, depth=depth)
    return {
        "name": fault.name,
        "kind": fault.kind,
        "depth": depth,
        "status": done.status,
        "reason": done.reason[:300],
        "run": getattr(done.runs[-1], "name", "") if done.runs else "",
        "runs": len(done.runs),
        "seconds": round(time.monotonic() - started, 2),
        "cpu": round(cpu() - used, 2),
    }


def check(fault: Fault) -> str:
    """Return why the fault cannot be planted in its kernel at the kernel's true size, or "" if it can.

    The reason is that the edit does not apply, the edited kernel does not compile, or no sampled schedule executes the
    edited line.
    """
    from measurements.emulator.ptx.build import KernelCompileError, compile_to_bytecode

    try:
        kernel = fault.planted().kernel(fault.problem, fault.schedule(), fault.where)
        right = template(fault.template).kernel(fault.problem, fault.schedule(), fault.where)
        broken, correct = compile_to_bytecode(kernel), compile_to_bytecode(right)
    except (ValueError, KernelCompileError) as error:
        return str(error)[:200]
    return (
        "no sampled schedule executes the edited line"
        if fault.host is None and broken.path.read_bytes() == correct.path.read_bytes()
        else ""
    )
