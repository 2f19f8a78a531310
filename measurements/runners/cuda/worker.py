"""Worker process that owns one GPU: it loads cubins, verifies their results, and times them.

The process only needs numpy and cupy. It does not call cupy functions that compile kernels, because those need CUDA
headers, which a pip installation may lack. Copies, fills, events, graphs and launches of existing cubins need no
headers. Any operation may hang or crash the process; the supervisor then replaces it.

``requests.py`` lists the operations of the process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from measurements.files.text import first_line, one_line
from measurements.files.work_folders import temporary_folder
from measurements.runners.cuda.check_kernels import (
    GUARD,
    HOLD,
    KERNEL,
    entry_for,
)
from measurements.runners.cuda.device_arrays import LoadedModule, ProblemData, Slots
from measurements.runners.cuda.l2_cache import reset_persisting_lines
from measurements.runners.cuda.launch_timer import MAX_GRAPH, LaunchTimeout, LaunchTimer, NoGraph, Repeats, repeated
from measurements.runners.cuda.libraries.baselines import TOLERANCES, baseline_call
from measurements.runners.cuda.libraries.cublas import CublasError, library_version
from measurements.runners.cuda.nvml import open_state
from measurements.runners.cuda.race import race
from measurements.runners.cuda.references import PARTS, array_of
from measurements.runners.cuda.requests import (
    Compare,
    Count,
    Health,
    Measure,
    Open,
    Outputs,
    Prepare,
    Request,
    SentKernel,
    from_message,
)
from measurements.runners.cuda.result_checks import ResultChecks, WrongResult
from measurements.runners.cuda.stream_hold import StreamHold
from measurements.runners.launch import LoadedLaunch
from measurements.runners.launch_refused import LaunchRefused
from measurements.trials.measurement import Status
from measurements.trials.timing_statistics import interleaved
from measurements.workers.messages import Buffer, Message
from measurements.workers.worker import serve
from search_spaces.catalogue import problem_from_json
from search_spaces.hardware.dtypes import SCALAR_DTYPES
from search_spaces.launches.launch import launch_from_json, operand_from_json
from search_spaces.launches.operand import Operand
from search_spaces.operators.problem import Problem

# Maximum number of copies of operands. Because of this limit, buffers of tiny problems are smaller than requested.
_MAX_COPIES = MAX_GRAPH // 2
_LOADS_PER_FLUSH = 64
_LAUNCHES_AFTER_RACE = 3
# Factor by which graph_below is increased for comparisons. One side may be a library, which may need more time to queue
# its kernels than the GPU needs to run them.
_COMPARED_LONGER = 10.0
_OUT_OF_MEMORY, _LAUNCH_OUT_OF_RESOURCES = 2, 701


Blobs = Mapping[str, Buffer]  # blobs by digest


class GpuWorker:
    """Operations of the worker process, which holds the data of one problem at a time. ``cp`` is the cupy module."""

    def __init__(self, cp: Any) -> None:
        self._cp = cp
        self._stream: Any = None
        self._checks = ResultChecks(cp, {}, 0)
        self._timer = LaunchTimer(cp, self._stream)
        self._data: dict[str, ProblemData] = {}
        self._incumbent: tuple[SentKernel, LoadedModule] | None = None
        self._loads = 0

    def handle(self, message: Message) -> Message:
        """Execute one operation. Errors of a candidate are part of the reply; other errors are raised."""
        request = from_message(message)
        if isinstance(request, Count):
            return Message({"gpus": int(self._cp.cuda.runtime.getDeviceCount())})
        if isinstance(request, Open):
            self._take(request.gpu)
        with self._stream:
            return _message(self._answer(request, message.blobs))

    def _answer(self, request: Request, blobs: Blobs) -> dict[str, Any]:
        match request:
            case Open():
                return self._open(request, blobs)
            case Health():
                self._checks.verify_healthy(self._stream)
                return {}
            case Prepare():
                return self._prepare(request, blobs)
            case Measure():
                return self._measure(request, blobs)
            case Outputs():
                return self._outputs(request, blobs)
            case Compare():
                return self._compare(request, blobs)
            case _:
                raise ValueError(f"{type(request).__name__} does not run on a stream")

    # ---- the device ----

    def _take(self, gpu: int) -> None:
        self._cp.cuda.Device(gpu).use()
        self._stream = self._cp.cuda.Stream(non_blocking=True)

    def _open(self, request: Open, blobs: Blobs) -> dict[str, Any]:
        runtime, device = self._cp.cuda.runtime, self._cp.cuda.Device(request.gpu)
        properties = runtime.getDeviceProperties(device.id)
        attributes = {str(k): int(v) for k, v in device.attributes.items()}
        # cupy's attributes lack the compute capability.
        attributes |= {f"ComputeCapability{part}": int(properties[part.lower()]) for part in ("Major", "Minor")}
        functions: dict[str, Any] = {}
        hold: StreamHold | None = None
        if request.checks is not None:
            with _file(blobs[request.checks]) as path:
                module = self._cp.RawModule(path=path)
                # All functions are loaded now, because the file is temporary. cupy reads the file again for a function
                # that it loads after clearing its cache.
                entries = (KERNEL.entry, *map(entry_for, SCALAR_DTYPES))
                functions = {entry: module.get_function(entry) for entry in entries}
                hold = StreamHold(self._cp, module.get_function(HOLD))
        self._checks = ResultChecks(self._cp, functions, 8 * attributes["MultiProcessorCount"])
        state, driver = open_state(device.pci_bus_id)
        self._timer = LaunchTimer(self._cp, self._stream, state, hold)
        return {
            "name": properties["name"].decode(),
            "memory_bytes": int(properties["totalGlobalMem"]),
            "attributes": attributes,
            "driver": driver or "",
            "cuda_driver": int(runtime.driverGetVersion()),
            "cuda_runtime": int(runtime.runtimeGetVersion()),
            "cupy": str(self._cp.__version__),
        }

    # ---- data ----

    def _prepare(self, request: Prepare, blobs: Blobs) -> dict[str, Any]:
        cp = self._cp
        self._data.clear()
        self._incumbent = None
        cp.get_default_memory_pool().free_all_blocks()
        operands = tuple(operand_from_json(o) for o in request.operands)
        try:
            problem: Problem | None = problem_from_json(request.problem)
            why = ""
        except ValueError as error:  # only the tuning process knows the operator
            problem, why = None, one_line(str(error))
        try:
            parts = self._arrived(request.arrays, operands, blobs)
            if "inputs" not in parts and problem is not None:
                drawn = problem.random_inputs(request.seed)
                parts["inputs"] = {name: cp.asarray(a) for name, a in drawn.items()}
            if problem is not None and "inputs" in parts:
                try:
                    for part, compute in (("reference", problem.reference), ("tolerance", problem.tolerance)):
                        if part not in parts:
                            computed = compute(parts["inputs"])
                            parts[part] = {name: self._on_gpu(operands, name, a) for name, a in computed.items()}
                except MemoryError:
                    raise
                except (
                    Exception
                ) as error:  # for example without cuBLAS or headers, or if the reference needs numpy arrays
                    # only the first line, because the message may be a long log
                    why = f"{type(error).__name__}: {one_line(first_line(error))}"
            missing = [part for part in PARTS if part not in parts]
            if missing:
                return {"missing": missing, "why": why}
            size = sum(o.bytes for o in operands)
            copies = min(max(math.ceil(request.cold_bytes / size), 1), _MAX_COPIES)
            slots = {o.name: Slots(cp, o, copies) for o in operands}
            for name, slot in slots.items():
                slot.fill(self._stream, parts["inputs"].get(name))
        except MemoryError as error:
            return {"status": Status.OUT_OF_RESOURCES.value, "reason": f"the GPU has too little memory: {error}"}
        self._stream.synchronize()
        # Free temporary arrays of the reference, because other libraries also need memory.
        cp.get_default_memory_pool().free_all_blocks()
        inputs, reference, tolerance = (parts[part] for part in PARTS)
        self._data[request.data] = ProblemData(problem, inputs, reference, tolerance, slots, copies, request.cold_bytes)
        return {"copies": copies}

    def _arrived(
        self, arrays: Mapping[str, Mapping[str, str]], operands: Sequence[Operand], blobs: Blobs
    ) -> dict[str, dict[str, Any]]:
        """Copy the request's arrays to the GPU.

        Returns the arrays by part (kind of array) and operand.
        """
        by_name = {o.name: o for o in operands}
        return {
            part: {
                name: self._cp.asarray(array_of(part, by_name[name], blobs[digest])) for name, digest in digests.items()
            }
            for part, digests in arrays.items()
        }

    def _on_gpu(self, operands: Sequence[Operand], name: str, array: Any) -> Any:
        shape = next(o.shape for o in operands if o.name == name)
        if not isinstance(array, self._cp.ndarray) or array.dtype != np.float64 or array.shape != shape:
            raise TypeError(f"the reference of {name} must be a float64 array on the GPU")
        return self._cp.ascontiguousarray(array)

    # ---- measuring ----

    def _measure(self, request: Measure, blobs: Blobs) -> dict[str, Any]:
        data, limit = self._data[request.data], request.launch_limit
        answer: dict[str, Any] = {"seconds": []}
        with self._outcome(answer):
            program = self._load(request.kernel, data, blobs)
            answer["error"] = self._verified(program, data, limit)
            self._poison(program.slots)
            reset_persisting_lines()
            repeats = self._raced(request, program, data, blobs)
            if repeats is None:
                sampler = self._sampler(program, data, limit, request.graph_below)
                repeats = repeated(self._timer, sampler, request.rule, request.best)
            answer |= {"seconds": repeats.seconds, "clock_mhz": repeats.clock}
            answer["reason"] = "; ".join(filter(None, (program.loaded.shrunk(), repeats.reason)))
            self._checks.expect_undamaged(program, data)
            answer["error"] = max(
                answer["error"], self._checks.largest_error(program, data, "after repeated launches: ")
            )
            # measured last, because arrays that a kernel changes in place are not restored between these launches
            if request.power:
                answer["watts"] = self._timer.mean_watts(program.launch, data.copies, limit)
        return answer

    def _raced(self, request: Measure, program: LoadedModule, data: ProblemData, blobs: Blobs) -> Repeats | None:
        """Time a kernel in pairs with the incumbent. Return None without an incumbent, or if pairs cannot be timed."""
        incumbent, limit = request.incumbent, request.launch_limit
        if incumbent is None or any(slot.operand.role == "inout" for slot in program.slots):
            return None
        known = self._incumbent
        if known is None or known[0] != incumbent.kernel:
            known = self._incumbent = (incumbent.kernel, self._load(incumbent.kernel, data, blobs))
        raced = race(
            self._timer, known[1].launch, program.launch, incumbent.seconds, data.copies, limit, incumbent.rule
        )
        if raced is None:
            return None
        self._poison(program.slots)
        # The incumbent wrote the same output arrays. Launch the candidate again, because its outputs are checked next.
        for _ in range(_LAUNCHES_AFTER_RACE):
            program.launch(0)
        self._timer.wait(_LAUNCHES_AFTER_RACE * limit)
        reason = f"timed only {len(raced.ratios)} times: over {incumbent.rule.out_factor:g} times slower than the best"
        seconds = [incumbent.seconds * ratio for ratio in raced.ratios]
        return Repeats(seconds, self._timer.clock, reason if raced.out else "")

    def _sampler(
        self, program: LoadedModule, data: ProblemData, limit: float, graph_below: float
    ) -> Callable[[], list[float]]:
        """Return a sampler in which each launch starts with the original inputs.

        If a kernel changes arrays in place, these arrays are restored before each timed launch, and no graph is used.
        """
        if not any(slot.operand.role == "inout" for slot in program.slots):
            return self._timer.sampler(program.launch, data.copies, limit, graph_below)
        return self._timer.held_sampler(
            program.launch, data.copies, limit, lambda copy: self._restore(program, data, copy)
        )

    def _restore(self, program: LoadedModule, data: ProblemData, copy: int) -> None:
        for slot in program.slots:
            if slot.operand.role == "inout":
                pointer = slot.memory + copy * slot.stride
                pointer.copy_from_device_async(data.inputs[slot.operand.name].data, slot.operand.bytes, self._stream)

    def _outputs(self, request: Outputs, blobs: Blobs) -> dict[str, Any]:
        data, limit = self._data[request.data], request.launch_limit
        answer = Message({"seconds": [1.0], "outputs": {}})
        with self._outcome(answer):
            program = self._load(request.kernel, data, blobs)
            self._poison(program.slots)
            self._restore(program, data, 0)
            program.launch(0)
            self._timer.wait(limit)
            for slot in program.slots:
                if slot.operand.role in ("output", "inout"):
                    answer["outputs"][slot.operand.name] = answer.attach(self._cp.asnumpy(slot.array(0)).tobytes())
        return answer

    def _compare(self, request: Compare, blobs: Blobs) -> dict[str, Any]:
        data, limit = self._data[request.data], request.launch_limit
        graph_below = _COMPARED_LONGER * request.graph_below
        entrants: list[dict[str, Any]] = []
        samplers: dict[int, Callable[[], list[float]]] = {}
        for kernel in request.kernels:
            entrant: dict[str, Any] = {"seconds": []}
            with self._outcome(entrant):
                program = self._load(kernel, data, blobs)
                entrant["error"] = self._verified(program, data, limit)
                sampler = self._sampler(program, data, limit, graph_below)
                self._checks.expect_undamaged(program, data)
                samplers[len(entrants)] = sampler
            entrants.append(entrant)
            if entrant.get("poisoned"):
                return {"status": Status.OK.value, "entrants": entrants, "poisoned": True}
        copies = [{name: s.array(i) for name, s in data.slots.items()} for i in range(data.copies)]
        for name in request.baselines:
            entrant = {"seconds": [], "baseline": name}
            with self._outcome(entrant):
                samplers[len(entrants)] = self._baseline(name, data, copies, entrant, limit, graph_below)
            entrants.append(entrant)
            if entrant.get("poisoned"):
                return {"status": Status.OK.value, "entrants": entrants, "poisoned": True}
        indices = list(samplers)
        for order in interleaved(len(indices), request.rounds):
            for position in order:
                # L2 lines that one kernel marks as persisting would take cache space from the next kernel
                reset_persisting_lines()
                times = sorted(samplers[indices[position]]())
                entrants[indices[position]]["seconds"].append(times[len(times) // 2])
        return {"status": Status.OK.value, "entrants": entrants, "clock_mhz": self._timer.clock}

    def _baseline(
        self,
        name: str,
        data: ProblemData,
        copies: list[dict[str, Any]],
        entrant: dict[str, Any],
        limit: float,
        graph_below: float,
    ) -> Callable[[], list[float]]:
        """Verify the results of a baseline and return a sampler that times it. Raises _Unable."""
        outputs = [slot for slot in data.slots.values() if slot.operand.role == "output"]
        self._poison(outputs)
        if data.problem is None:
            raise _Unable("the GPU worker does not know the operator of this problem")
        call = baseline_call(name, self._cp, self._stream, data.problem, copies, data.cold_bytes)
        if isinstance(call, str):
            raise _Unable(call)
        self._timer.wait(limit)
        if name == "library":
            with suppress(CublasError):
                entrant["version"] = library_version()
        if name != "copy":
            entrant["error"] = max(self._checks.error(slot, data)[0] for slot in outputs)
            if not entrant["error"] <= TOLERANCES:
                raise _Unable(f"{name} has different results: the largest error is {entrant['error']:.3g}x tolerance")
        try:
            return self._timer.sampler(call, data.copies, limit, graph_below)
        except NoGraph:  # a library that allocates memory, for example, cannot be captured in a graph
            held = self._timer.held_sampler(call, data.copies, limit)

            def sampler() -> list[float]:
                times = held()
                if self._timer.with_host:
                    entrant["reason"] = (
                        "times include host time, because this baseline synchronises with the GPU and "
                        "cannot run in a CUDA graph"
                    )
                return times

            return sampler

    @contextmanager
    def _outcome(self, answer: dict[str, Any]) -> Iterator[None]:
        """Record an exception in ``answer``: its status and reason, and ``poisoned`` if the process is now unusable."""
        cuda = self._cp.cuda
        poisoned = False
        try:
            yield
            answer["status"] = Status.OK.value
        except WrongResult as error:
            answer |= {"status": Status.WRONG_RESULT.value, "reason": str(error), "error": error.worst}
            poisoned = error.damage
        except (_Unable, LaunchRefused) as error:
            answer |= {"status": Status.LAUNCH_ERROR.value, "reason": str(error)}
        except LaunchTimeout as error:
            answer |= {"status": Status.TIMEOUT.value, "reason": str(error)}
            poisoned = True
        except NoGraph as error:
            answer |= {"status": Status.LAUNCH_ERROR.value, "reason": f"cannot be captured in a graph: {error}"}
            poisoned = True
        except MemoryError as error:
            answer |= {"status": Status.OUT_OF_RESOURCES.value, "reason": f"the GPU has too little memory: {error}"}
        except (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError) as error:
            few = error.status in (_OUT_OF_MEMORY, _LAUNCH_OUT_OF_RESOURCES)
            answer["status"] = (Status.OUT_OF_RESOURCES if few else Status.LAUNCH_ERROR).value
            answer["reason"] = str(error)
            poisoned = not few or not self._alive()
        if poisoned:
            answer["poisoned"] = True
        if answer["status"] != Status.OK.value:
            answer["seconds"] = []

    def _alive(self) -> bool:
        cuda = self._cp.cuda
        try:
            cuda.runtime.deviceSynchronize()
        except (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError):
            return False
        return True

    def _load(self, kernel: SentKernel, data: ProblemData, blobs: Blobs) -> LoadedModule:
        cp = self._cp
        self._loads += 1
        if self._loads % _LOADS_PER_FLUSH == 0:
            cp.clear_memo()  # cupy caches every loaded module; clearing the cache releases GPU memory
        launch = launch_from_json(kernel.launch)
        slots = []
        for operand in launch.operands:
            if operand.role == "workspace":
                own = Slots(cp, operand, 1)  # all copies share one workspace, as in calls of the kernel
                own.fill(self._stream, None, 0 if operand.zeroed else GUARD)
                slots.append(own)
            elif operand.name in data.slots:
                slots.append(data.slots[operand.name])
            else:
                raise LaunchRefused(f"the kernel has an operand {operand.name} that its problem does not have")
        with _file(blobs[kernel.cubin]) as path:
            program = LoadedModule(LoadedLaunch(cp, launch, path), slots)
        program.loaded.fill_symbols({slot.operand.name: slot.array(0) for slot in slots})
        return program

    def _verified(self, program: LoadedModule, data: ProblemData, limit: float) -> float:
        """Fill the outputs with poison, launch once, and return the largest ratio of an error to its tolerance."""
        self._poison(program.slots)
        self._restore(program, data, 0)
        program.launch(0)
        self._timer.wait(limit)
        try:
            return self._checks.largest_error(program, data, "")
        except WrongResult:
            # Memory is checked as well, because a kernel with wrong results may also have overwritten other arrays.
            self._checks.expect_undamaged(program, data)
            raise

    def _poison(self, slots: Iterable[Slots]) -> None:
        for slot in slots:
            if slot.operand.role == "output":
                # this byte pattern is NaN in every float type
                slot.memory.memset_async(0xFF, slot.operand.bytes, self._stream)


def _message(answer: dict[str, Any]) -> Message:
    return answer if isinstance(answer, Message) else Message(answer)


@contextmanager
def _file(cubin: Buffer) -> Iterator[str]:
    """Yield a temporary file with ``cubin``. The name is always new, because cupy caches modules by path."""
    with temporary_folder("cubin") as folder:
        path = folder / "kernel.cubin"
        path.write_bytes(cubin)
        yield str(path)


class _Unable(Exception):
    """A baseline cannot be timed. The message is the reason."""


if __name__ == "__main__":
    import cupy

    serve(GpuWorker(cupy).handle)
