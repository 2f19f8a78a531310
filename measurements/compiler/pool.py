"""Compile kernels to cubins with NVRTC, in worker processes with a time limit and a shared cache."""

from __future__ import annotations

import dataclasses
import math
import re
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self
from weakref import WeakValueDictionary

from measurements.compiler.cores import usable_cores
from measurements.compiler.cubin_cache import CompileCache, Compiled, CompiledStep
from measurements.compiler.cuda_headers import missing_header
from measurements.compiler.limits import MACHINE_CODE, CompilerLimitExceeded, request_within
from measurements.compiler.nvcc import NvccMissing, toolchain_of
from measurements.compiler.nvrtc import NVCC, OPTIONS, CompilerOutput, NvrtcMissing, loaded_version
from measurements.compiler.other_compiler import COMPILER_MODULE, MEMORY_LIMIT, OtherCompiler
from measurements.compiler.ptxas import why_not_compiled
from measurements.files.text import harmless, one_line
from measurements.trials.measurement import Resources, Status
from measurements.workers.messages import Message
from measurements.workers.transport import WorkerClosed, WorkerDied, WorkerFailed
from measurements.workers.worker import Worker
from search_spaces.hardware.devices import Device, occupancy
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.tensor_map import TensorMap

__all__ = [
    "CompileCache",
    "CompileFailure",
    "CompilePool",
    "Compiled",
    "Compiler",
    "NvrtcMissing",
    "error_reason",
    "over_limits",
    "parse_resources",
    "why_not_launched",
]


@dataclass(frozen=True)
class CompileFailure:
    """A failed compilation. ``reason`` is one line.

    ``status`` is compile_error, compile_timeout, out_of_resources or crashed.
    """

    status: Status
    reason: str
    log: str = ""


class Compiler(Protocol):
    """Interface for compiling kernels asynchronously."""

    @property
    def toolchain(self) -> str:
        """Compiler and its version, such as "nvrtc 13.0.88"."""

    def submit(self, kernel: GeneratedKernel, arch: str) -> Future[Compiled | CompileFailure]:
        """Start compiling ``kernel`` for ``arch`` ("sm_90a")."""


class CompilePool:
    """Compile in several processes, each controlled by one thread.

    Args:
        cache: Cache of cubins; None for the user's default cache.
        workers: Number of processes; None for one per usable core.
        time_limit: CPU seconds per kernel; a compiler that exceeds this limit is killed.
        options: Options of NVRTC.
        compile_options: Compiler options of the kernels. If one of these options selects nvcc, ``toolchain`` is the
            version of nvcc.
        worker_module: Module that the processes run.
        python_path: Folders to add to the ``sys.path`` of the processes.
        other: Other Python environment whose NVRTC compiles; None for the current environment.

    Raises:
        NvrtcMissing: NVRTC is not installed.
        ValueError: nvcc is selected but missing, or a worker count or limit is not positive.
    """

    def __init__(
        self,
        cache: CompileCache | None = None,
        *,
        workers: int | None = None,
        time_limit: float = 60.0,
        options: Sequence[str] = OPTIONS,
        compile_options: Sequence[str] = (),
        worker_module: str = COMPILER_MODULE,
        python_path: Sequence[str] = (),
        other: OtherCompiler | None = None,
    ) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers must be at least 1, not {workers}")
        if not time_limit > 0:
            raise ValueError(f"the compile time limit must be positive, not {time_limit} s")
        self._other = other
        self.toolchain = self._toolchain_of(compile_options)
        if NVCC not in compile_options and other is None:
            loaded_version()  # report a missing compiler once, at the start, instead of for each kernel
        self.cache = cache or CompileCache()
        self.workers = workers or usable_cores()
        self.time_limit = time_limit
        self._options = tuple(options)
        self._worker_module, self._python_path = worker_module, tuple(python_path)
        self._local = threading.local()
        self._lock = threading.Lock()
        self._owned: list[Worker] = []
        self._compiling = WeakValueDictionary[str, threading.Lock]()
        self._closed = False
        self._executor = ThreadPoolExecutor(self.workers, thread_name_prefix="compile", initializer=self._own_worker)

    def submit(self, kernel: GeneratedKernel, arch: str) -> Future[Compiled | CompileFailure]:
        """Start compiling ``kernel`` for ``arch`` ("sm_90a"). Raises RuntimeError after ``close``."""
        if self._closed:
            raise RuntimeError("the compile pool is closed")
        return self._executor.submit(self._compile, kernel, arch)

    def compile(self, kernel: GeneratedKernel, arch: str) -> Compiled | CompileFailure:
        """Compile one kernel and wait for it."""
        return self.submit(kernel, arch).result()

    def options(self, kernel: GeneratedKernel) -> tuple[str, ...]:
        """Return the options with which ``kernel`` is compiled."""
        return (*self._options, *kernel.compile_options)

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the running compilers."""
        with self._lock:
            return tuple(w.pid for w in self._owned if w.pid is not None)

    def close(self) -> None:
        """Cancel pending jobs and kill running compilers. Safe to call twice and from any thread."""
        with self._lock:
            self._closed = True
            owned = list(self._owned)
        # shutdown(cancel_futures=True) is not used, because as_completed would wait forever for the cancelled jobs.
        # Instead, each pending job fails immediately once ``_closed`` is set.
        for worker in owned:
            worker.close()
        self._executor.shutdown(wait=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _own_worker(self) -> None:
        worker = Worker(
            self._worker_module,
            python_path=self._python_path,
            python=sys.executable if self._other is None else self._other.python,
            memory_limit=MEMORY_LIMIT,
        )
        with self._lock:
            if self._closed:
                worker.close()
            self._owned.append(worker)
        self._local.worker = worker

    def _toolchain_of(self, options: Sequence[str]) -> str:
        if self._other is not None and NVCC not in options:
            return self._other.toolchain
        return toolchain_of(options)

    def _compile(self, kernel: GeneratedKernel, arch: str) -> Compiled | CompileFailure:
        if self._closed:
            raise WorkerClosed("the compile pool is closed")
        options = self.options(kernel)
        try:
            toolchain = self._toolchain_of(options)
        except NvccMissing as error:
            return CompileFailure(Status.COMPILE_ERROR, str(error))
        why = why_not_compiled(options, toolchain)
        if why:
            return CompileFailure(Status.COMPILE_ERROR, why)
        key = CompileCache.key(kernel, arch, options, toolchain)
        with self._lock:
            compiling = self._compiling.setdefault(key, threading.Lock())
        with compiling:  # compile a source only once, even if concurrent jobs request it
            return self.cache.load(key) or self._compile_new(kernel, arch, options, toolchain, key)

    def _compile_new(
        self, kernel: GeneratedKernel, arch: str, options: Sequence[str], toolchain: str, key: str
    ) -> Compiled | CompileFailure:
        request = {
            "source": kernel.source,
            "entry": kernel.entry,
            "then": [step.entry for step in kernel.then],
            "arch": arch,
            "headers": kernel.headers.digest,
            "options": list(options),
        }
        worker: Worker = self._local.worker
        headers = {kernel.headers.digest: kernel.headers.encoded}
        for last_try in (False, True):
            try:
                answer = request_within(kernel.limits, worker, request, headers, self.time_limit, MACHINE_CODE)
                break
            except CompilerLimitExceeded as exceeded:
                return CompileFailure(Status(exceeded.status), str(exceeded))
            except WorkerFailed as error:  # NVRTC ran out of memory, or does not know an option
                return CompileFailure(Status.CRASHED, f"the compiler failed: {error}")
            except WorkerDied as error:
                # The first crash may have an external cause, such as the out-of-memory killer. A second crash is
                # attributed to the source.
                if last_try:
                    return CompileFailure(Status.CRASHED, f"the compiler crashed: {error}", error.stderr)
        try:
            output = _output(answer)
        except (KeyError, TypeError, ValueError):
            return CompileFailure(Status.CRASHED, f"the compiler's reply is malformed: {str(answer)[:200]}")
        log = output.log
        if output.cubin is None:
            return _failure(log, kernel.entry)
        steps = []
        for step, entry in zip(kernel.steps, (output.entry, *output.then), strict=True):
            allotted = parse_resources(log, entry)
            if allotted is None:
                return CompileFailure(Status.COMPILE_ERROR, f"no entry function {step.entry!r} was compiled", log)
            allotted = dataclasses.replace(allotted, dynamic_shared_bytes=step.dynamic_shared_bytes)
            steps.append(CompiledStep(entry, allotted))
        serialized = re.search(r"^.*wgmma.*serialized.*$", log, re.MULTILINE)
        if serialized:
            return CompileFailure(Status.COMPILE_ERROR, one_line(f"ptxas serialized wgmma: {serialized[0]}"), log)
        return self.cache.store(
            key,
            output.cubin,
            entry=output.entry,
            resources=_most(steps),
            compile_seconds=output.seconds,
            log=log,
            arch=arch,
            toolchain=toolchain,
            steps=steps if kernel.then else (),
        )


def _most(steps: Sequence[CompiledStep]) -> Resources:
    """Return the maximum of each resource over the functions of a pipeline, or the resources of a single function."""
    each = [dataclasses.astuple(step.resources) for step in steps]
    return Resources(*map(max, zip(*each, strict=True)))


def parse_resources(log: str, entry: str) -> Resources | None:
    """Parse the resources that ptxas -v printed about the function ``entry``; None if it printed none.

    NVRTC 12.8 to 13.5 print one section per entry function. Sections of called functions may follow. The log does not
    contain the size of dynamic shared memory, so this size is 0 in the result.
    """
    for section in re.split(r"^ptxas info\s*: Compiling entry function ", log, flags=re.MULTILINE)[1:]:
        if not section.startswith(f"'{entry}'"):
            continue
        used = re.search(r"Used (\d+) registers.*", section)
        frame = re.search(
            r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads",
            section[max(section.find(f"Function properties for {entry}\n"), 0) :],
        )
        if used is None or frame is None:
            return None
        shared = re.search(r"(\d+) bytes smem", used[0])
        # this size includes the stacks of called functions
        stack = re.search(r"(\d+) bytes cumulative stack size", used[0])
        return Resources(
            registers=int(used[1]),
            spill_store_bytes=int(frame[2]),
            spill_load_bytes=int(frame[3]),
            stack_bytes=int(stack[1] if stack else frame[1]),
            static_shared_bytes=int(shared[1]) if shared else 0,
            dynamic_shared_bytes=0,
        )
    return None


def error_reason(log: str) -> str:
    """Return the first error of a failed compilation as "file:line: message". Headers have their include names."""
    for line in log.splitlines():
        located = re.match(
            r"(?P<file>.+)\((?P<line>\d+)\): (?:catastrophic |internal )?error(?: #\S+)?: (?P<text>.*)", line
        )
        if located:
            return f"{located['file']}:{located['line']}: {located['text'].strip()}{_remedy(located['text'])}"
        ptx = re.match(r"\s*ptxas .*?, line (?P<line>\d+); (?:error|fatal)\s*: (?P<text>.*)", line)
        if ptx:
            return f"ptx:{ptx['line']}: {ptx['text'].strip()}"
        plain = re.match(r"\s*(?P<tool>ptxas|nvrtc)\s*:?\s*(?:error|fatal)\s*: (?P<text>.*)", line)
        if plain:
            return f"{plain['tool']}: {plain['text'].strip()}"
    return next((line.strip() for line in log.splitlines() if line.strip()), "the compiler gave no message")


# Warp functions without a mask, which CUDA 9 deprecated and which GPUs since Volta do not support.
_WITHOUT_MASK = re.compile(r'identifier "(__(?:shfl(?:_up|_down|_xor)?|any|all|ballot))" is undefined')


def _remedy(text: str) -> str:
    """Return the remedy for a missing header, or for a warp function without a mask; "" for other errors."""
    if old := _WITHOUT_MASK.search(text):
        return f": use {old[1]}_sync, whose first argument is the mask of the warp's threads"
    if not missing_header(text):
        return ""
    return ': add its folder (include = ["FOLDER"] in a kernel file, or --option=-IFOLDER), or compile with nvcc'


def why_not_launched(kernel: GeneratedKernel, compiled: Compiled, device: Device) -> str | None:
    """Return the reason why ``device`` cannot launch the compiled kernel, in one sentence; None if it can."""
    if not compiled.steps:
        return over_limits(kernel, compiled.resources, device)
    for step, compiled_step in zip(kernel.steps, compiled.steps, strict=True):
        reason = over_limits(step, compiled_step.resources, device)
        if reason is not None:
            return f"{step.name}: {reason}"
    return None


def over_limits(kernel: GeneratedKernel, resources: Resources, device: Device) -> str | None:
    """Return the reason why ``device`` cannot launch one compiled function, in one sentence; None if it can."""
    shared = resources.static_shared_bytes + resources.dynamic_shared_bytes
    if shared > device.shared_per_block:
        return (
            f"{shared} bytes of shared memory per block exceed the limit of {device.name} ({device.shared_per_block})"
        )
    if kernel.threads > device.max_threads_per_block:
        return f"{kernel.threads} threads per block exceed the limit of {device.name} ({device.max_threads_per_block})"
    if not device.has("tma") and (
        kernel.cluster != (1, 1, 1) or any(isinstance(a, TensorMap) for a in kernel.arguments)
    ):
        return f"clusters and tensor maps need compute capability 9.0, but {device.name} has {device.sm / 10}"
    if occupancy(device, kernel.threads, resources.registers, shared) == 0:
        return (
            f"{kernel.threads} threads of {resources.registers} registers exceed the "
            f"{device.registers_per_block} registers per block of {device.name}"
        )
    return None


def _output(answer: Message) -> CompilerOutput:
    """Convert the reply of a compile worker. Raises KeyError, TypeError or ValueError for a malformed reply."""
    cubin, entry, seconds = answer["cubin"], answer["entry"], float(answer["seconds"])
    if not (seconds >= 0 and math.isfinite(seconds)):
        raise ValueError("the compile worker's time is invalid")
    program = None if cubin is None else bytes(answer.blobs[cubin])
    if program == b"":
        raise ValueError("the compile worker's cubin is empty")
    then = tuple(map(str, answer.get("then", ())))
    return CompilerOutput(program, str(entry), harmless(str(answer["log"])), seconds, then)


def _failure(log: str, entry: str) -> CompileFailure:
    reason = one_line(error_reason(log))
    # pseudo-file in which NVRTC reports an entry function that it cannot find
    unnamed = re.fullmatch(r"__nv_name_map:\d+: (.*)", reason)
    if unnamed:
        reason = f"no entry function {entry!r} was compiled: {unnamed[1]}"
    too_much = re.search(r"uses too (much|many)", reason)
    return CompileFailure(Status.OUT_OF_RESOURCES if too_much else Status.COMPILE_ERROR, reason, log)
