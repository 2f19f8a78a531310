"""Export of kernels from a database to a folder, so that programs can launch them without autosched.

``DIR/manifest.json`` describes each kernel: the problem, the launch (as expressions of sizes), tensor maps, digests,
the verification, and the provenance of the schedule. The folder also contains cubins, PTX if requested, a C++ header
with all kernels, a C++ launcher, a C interface, and a Python loader.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from autosched.aot.cpp import header
from autosched.aot.exported import ExportedKernel
from autosched.aot.manifest import manifest_entry
from autosched.aot.portable import portable
from autosched.dispatch.lookup import look_up
from autosched.dispatch.provenance import NoSchedule
from autosched.verify import stored
from autosched.version import VERSION
from measurements.compiler.nvrtc import PTX_OPTIONS
from measurements.compiler.pool import CompileFailure, CompilePool, why_not_launched
from measurements.compiler.ptx import compile_to_ptx
from measurements.emulator.architecture import ptx_arch
from measurements.files.atomic_write import publish
from measurements.store.store import Store
from measurements.trials.vendor_library import is_library
from search_spaces.catalogue import is_operator
from search_spaces.hardware.devices import Device
from search_spaces.hardware.devices import device as device_row
from search_spaces.launches.control_file import for_ptx
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import BytesArgument, Launch
from search_spaces.launches.texture import LinearTexture
from search_spaces.operators.problem import Problem

FORMAT = 1
RUNTIME = Path(__file__).parent / "runtime"  # files that are copied to every export


def collect(
    store: Store,
    *,
    operator: str | None = None,
    device: str | None = None,
    problems: Sequence[Problem] = (),
    with_ptx: bool = False,
    skipped: Callable[[str], None] = lambda why: None,
) -> tuple[ExportedKernel, ...]:
    """Compile and return the kernels of the best schedules in ``store``.

    Args:
        store: Database, opened for reading.
        operator: Operator to export; None for all.
        device: Name of the device to export for; None for all.
        problems: Problems to export. Their kernels for ``device`` are selected by the rules of ``Database.kernel``.
            Default: the problems in the database.
        with_ptx: If True, include PTX, which newer GPUs can run.
        skipped: Function called with one line for each problem that has no kernel.

    Returns:
        The kernels, each with its cubin, launch, verification and provenance.

    Raises:
        NvrtcMissing: There is no compiler.
        ValueError: The device is unknown, or ``problems`` is passed without ``device``.
    """
    requested: Iterable[tuple[Problem, str]]
    if problems:
        if device is None:
            raise ValueError("a device is needed to select kernels for problems: name one")
        requested = [(problem, device) for problem in problems]
    else:
        requested = _recorded(store, operator, device, skipped)
    kernels: list[ExportedKernel] = []
    with CompilePool(workers=1) as pool:
        for problem, name in requested:
            exported = _exported_problem(store, problem, device_row(name), pool, with_ptx, exact=not problems)
            if isinstance(exported, str):
                skipped(f"{problem.key()} on {name}: {exported}")
            else:
                kernels.append(exported)
    return tuple(sorted(kernels, key=lambda k: (k.device.name, k.problem.operator, k.problem.key())))


def _recorded(
    store: Store, operator: str | None, device: str | None, skipped: Callable[[str], None]
) -> list[tuple[Problem, str]]:
    problems: dict[tuple[Problem, str], None] = {}
    current, left_out = store.current(store.problems(operator))
    if left_out:
        skipped(left_out)
    for summary in current:
        if not summary.works or device not in (None, summary.device):
            continue
        if not is_operator(summary.operator):
            skipped(f"{summary.operator} is unknown: pass its kernel file with --kernel, or its program with --program")
            continue
        problems[store.problem(summary), summary.device] = None
    return list(problems)


def _exported_problem(
    store: Store, problem: Problem, device: Device, pool: CompilePool, with_ptx: bool, *, exact: bool
) -> ExportedKernel | str:
    """Return the compiled kernel for a problem, or the reason why it cannot be exported."""

    def usable(kernel: GeneratedKernel) -> str | None:
        result = pool.compile(kernel, device.arch)
        if isinstance(result, CompileFailure):
            return result.reason
        return why_not_launched(kernel, result, device)

    try:
        answer = look_up(store, problem, device, exact=exact, usable=usable)
    except NoSchedule as error:
        return str(error)
    if answer.kernel is None or is_library(answer.provenance.schedule):
        return "the vendor's library is the fastest, and it cannot be exported"
    kernel = answer.kernel
    if any(isinstance(a, LinearTexture) for step in kernel.steps for a in step.arguments):
        return "the kernel reads a texture, which exports do not support"
    if any(isinstance(a, BytesArgument) for step in kernel.steps for a in step.arguments):
        return "the kernel has a struct parameter, which exports do not support"
    if any(step.cooperative for step in kernel.steps):
        return "the kernel has a cooperative launch, which exports do not support"
    compiled = pool.compile(kernel, device.arch)
    # compilation cannot fail here, because the look-up has already compiled the kernel
    assert not isinstance(compiled, CompileFailure)
    ptx = None
    if with_ptx:
        # Generate the kernel as for its verification, with the same options and source lines.
        output = compile_to_ptx(
            kernel.source,
            kernel.entry,
            ptx_arch(kernel),
            kernel.headers,
            tuple(dict.fromkeys((*PTX_OPTIONS, *for_ptx(kernel.compile_options)))),
            [step.entry for step in kernel.then],
        )
        ptx = output.text
    trial = store.best(problem, device.name)
    verified = trial is not None and answer.provenance.tuned and not stored.stale_reason(trial.verification, kernel)
    return ExportedKernel(
        problem,
        device,
        _launch_of(kernel).with_entries(compiled.entries),
        portable(problem, answer.provenance.schedule, kernel, device),
        compiled.cubin,
        ptx,
        trial.verification if trial is not None and verified else None,
        answer.provenance,
    )


def _launch_of(kernel: GeneratedKernel) -> Launch:
    return Launch(**{f.name: getattr(kernel, f.name) for f in dataclasses.fields(Launch)})


def write(kernels: Sequence[ExportedKernel], folder: str | Path) -> list[Path]:
    """Write the export to ``folder``, replacing an earlier export. The same kernels give the same bytes.

    Raises ValueError if there are no kernels, and OSError if a file cannot be written.
    """
    if not kernels:
        raise ValueError("no kernel to export: tune a problem first")
    to = Path(folder)
    written: list[Path] = []

    def put(name: str, content: bytes) -> None:
        path = to / name
        path.parent.mkdir(parents=True, exist_ok=True)
        publish(path, content)
        written.append(path)

    for old in ("cubins", "ptx"):
        shutil.rmtree(to / old, ignore_errors=True)
    for kernel in {k.digest: k for k in kernels}.values():
        put(f"cubins/{kernel.digest}.cubin", kernel.cubin)
        if kernel.ptx is not None:
            put(f"ptx/{kernel.digest}.ptx", kernel.ptx.encode())
    document = {"format": FORMAT, "autosched": VERSION, "kernels": [manifest_entry(k) for k in kernels]}
    put("manifest.json", (json.dumps(document, indent=1, sort_keys=True) + "\n").encode())
    put("autosched_kernels.hpp", header(kernels).encode())
    for path in sorted(RUNTIME.iterdir()):
        if path.is_file():
            put(path.name, path.read_bytes())
    return written
