"""The process that owns one GPU: it loads cubins, verifies their results, and times them. It needs only numpy and cupy.

No kernel of cupy's own is compiled here, because those need CUDA headers that a pip installation may lack; copies,
fills, events, graphs and launches of ready cubins do without. Any operation may hang or take the process down; the
supervisor then kills it and starts another.

Operations, each a JSON object with "op":
- ``count``: how many GPUs there are, none of which is touched.
- ``open`` (gpu, checks): take the GPU with that index; ``checks`` is the cubin of gpu_checks. What the GPU is.
- ``health``: run known-good kernels; raises if their answers are wrong.
- ``prepare`` (problem, seed, operands, arrays, cold_bytes): copy inputs into rotating buffers of ``cold_bytes`` in
  total, and get float64 references and tolerances. Inputs, reference and tolerance each come as bytes, where ``arrays``
  has them, or from the ``problem``, where this process knows its operator. What it can get neither way is reported in
  ``{"missing": [...], "why": ...}``.
- ``measure`` (data, kernel, rule, best, limits, power): verify, time, verify again. A status, the times, and a reason:
  why there are none, or what is unusual about them. ``best`` is the fastest median of this data so far, or null. With
  ``power`` also the mean watts of a second of launches, null where NVML does not tell.
- ``outputs`` (data, kernel, limits): launch once. The bytes of the outputs, by name.
- ``compare`` (data, kernels, rounds, baselines, limits): kernels and the baselines of cuda_library, interleaved.

Cubins and arrays are blobs of the message, named by their digests.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from measurements.files.text import first_line, one_line
from measurements.records.comparison import error_text
from measurements.records.measurement import Status
from measurements.records.timing_statistics import StopRule, interleaved
from measurements.runners.cuda.baselines import TOLERANCES, baseline_call
from measurements.runners.cuda.check_kernels import (
    GUARD,
    HOLD,
    KERNEL,
    MODE_ANY,
    MODE_EQUAL,
    MODE_ZERO,
    THREADS,
    entry_for,
    initial_report,
)
from measurements.runners.cuda.cublas import CublasError, library_version
from measurements.runners.cuda.l2_cache import reset_persisting_lines
from measurements.runners.cuda.launch_timer import MAX_GRAPH, LaunchTimeout, LaunchTimer, NoGraph, repeated
from measurements.runners.cuda.nvml import open_state
from measurements.runners.cuda.references import PARTS, array_of
from measurements.runners.cuda.stream_hold import StreamHold
from measurements.runners.launch import LaunchRefused, LoadedLaunch
from measurements.workers.messages import Buffer, Message
from measurements.workers.worker import serve
from search_spaces.catalogue import problem_from_json
from search_spaces.hardware.dtypes import DTYPES, SCALAR_DTYPES, DType
from search_spaces.operators.problem import Operand, Problem
from search_spaces.templates.kernel import launch_from_json, operand_from_json

_ALIGNMENT = 256  # bytes, of every buffer: what cudaMalloc gives
_GAP = 256  # guard bytes behind every buffer
_MAX_COPIES = MAX_GRAPH // 2  # of tiny problems, whose buffers then stay below the wanted size
_LOADS_PER_FLUSH = 64
_COMPARED_LONGER = 10.0  # times graph_below: a library may take longer to queue its kernels than they run
_OUT_OF_MEMORY, _LAUNCH_OUT_OF_RESOURCES = 2, 701


class GpuWorker:
    """``cp`` is the cupy module. State lives as long as the process: the GPU, and the data of one problem at a time."""

    def __init__(self, cp: Any) -> None:
        self._cp = cp
        self._stream: Any = None
        self._checks: dict[str, Any] = {}  # functions of gpu_checks, by entry
        self._blocks = 0
        self._timer = LaunchTimer(cp, self._stream)
        self._data: dict[str, _Data] = {}
        self._loads = 0

    def handle(self, request: Message) -> Message:
        """Do one operation. Raises every error that is not a candidate's own."""
        operations = {
            "open": self._open,
            "health": self._health,
            "prepare": self._prepare,
            "measure": self._measure,
            "outputs": self._outputs,
            "compare": self._compare,
        }
        if request["op"] == "count":
            return Message({"gpus": int(self._cp.cuda.runtime.getDeviceCount())})
        if request["op"] == "open":
            self._take(int(request["gpu"]))
        with self._stream:
            return _message(operations[request["op"]](request))

    # ---- the device ----

    def _take(self, gpu: int) -> None:
        self._cp.cuda.Device(gpu).use()
        self._stream = self._cp.cuda.Stream(non_blocking=True)

    def _open(self, request: Message) -> dict[str, Any]:
        runtime, device = self._cp.cuda.runtime, self._cp.cuda.Device(int(request["gpu"]))
        properties = runtime.getDeviceProperties(device.id)
        attributes = {str(k): int(v) for k, v in device.attributes.items()}
        # The two that cupy leaves out of them.
        attributes |= {f"ComputeCapability{part}": int(properties[part.lower()]) for part in ("Major", "Minor")}
        self._blocks = 8 * attributes["MultiProcessorCount"]
        hold: StreamHold | None = None
        if request["checks"] is not None:
            with _file(request.blobs[request["checks"]]) as path:
                module = self._cp.RawModule(path=path)
                # all now: later there is no file, which cupy reads again once it forgets its modules
                entries = (KERNEL.entry, *map(entry_for, SCALAR_DTYPES))
                self._checks = {entry: module.get_function(entry) for entry in entries}
                hold = StreamHold(self._cp, module.get_function(HOLD))
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

    def _health(self, request: Message) -> dict[str, Any]:
        cp = self._cp
        slots = _Slots(cp, Operand("health", "input", DTYPES["u32"], (1000,)), 3)
        pattern = np.arange(1000, dtype=np.uint32) * np.uint32(2654435761)
        wanted = cp.asarray(pattern)
        slots.fill(self._stream, wanted)
        if self._differences(slots, MODE_EQUAL, wanted) != (0, 0):
            raise RuntimeError("a known-good kernel found differences between equal arrays")
        pattern[617] ^= np.uint32(1)
        if self._differences(slots, MODE_EQUAL, cp.asarray(pattern)) != (3, 0):
            raise RuntimeError("a known-good kernel missed the differences between unequal arrays")
        return {}

    # ---- data ----

    def _prepare(self, request: Message) -> dict[str, Any]:
        cp = self._cp
        key = request["data"]
        self._data.clear()
        cp.get_default_memory_pool().free_all_blocks()
        operands = tuple(operand_from_json(o) for o in request["operands"])
        try:
            problem: Problem | None = problem_from_json(request["problem"])
            why = ""
        except ValueError as error:  # one that only the tuner's process knows
            problem, why = None, one_line(str(error))
        try:
            parts = self._arrived(request, operands)
            if "inputs" not in parts and problem is not None:
                drawn = problem.random_inputs(int(request["seed"]))
                parts["inputs"] = {name: cp.asarray(a) for name, a in drawn.items()}
            if problem is not None and "inputs" in parts:
                try:
                    for part, compute in (("reference", problem.reference), ("tolerance", problem.tolerance)):
                        if part not in parts:
                            computed = compute(parts["inputs"])
                            parts[part] = {name: self._on_gpu(operands, name, a) for name, a in computed.items()}
                except MemoryError:
                    raise
                except Exception as error:  # no cuBLAS, no headers, or a reference that needs numpy
                    why = f"{type(error).__name__}: {one_line(first_line(error))}"  # the message may be a whole log
            missing = [part for part in PARTS if part not in parts]
            if missing:
                return {"missing": missing, "why": why}
            size = sum(o.bytes for o in operands)
            copies = min(max(math.ceil(int(request["cold_bytes"]) / size), 1), _MAX_COPIES)
            slots = {o.name: _Slots(cp, o, copies) for o in operands}
            for name, slot in slots.items():
                slot.fill(self._stream, parts["inputs"].get(name))
        except MemoryError as error:
            return {"status": Status.OUT_OF_RESOURCES.value, "reason": f"the GPU has too little memory: {error}"}
        self._stream.synchronize()
        cp.get_default_memory_pool().free_all_blocks()  # a reference's temporaries: other libraries need memory too
        inputs, reference, tolerance = (parts[part] for part in PARTS)
        self._data[key] = _Data(problem, inputs, reference, tolerance, slots, copies, int(request["cold_bytes"]))
        return {"copies": copies}

    def _arrived(self, request: Message, operands: Sequence[Operand]) -> dict[str, dict[str, Any]]:
        """Return the arrays that came with the request, on the GPU, by part and operand."""
        by_name = {o.name: o for o in operands}
        return {
            part: {
                name: self._cp.asarray(array_of(part, by_name[name], request.blobs[digest]))
                for name, digest in digests.items()
            }
            for part, digests in request["arrays"].items()
        }

    def _on_gpu(self, operands: Sequence[Operand], name: str, array: Any) -> Any:
        shape = next(o.shape for o in operands if o.name == name)
        if not isinstance(array, self._cp.ndarray) or array.dtype != np.float64 or array.shape != shape:
            raise TypeError(f"the reference of {name} is not a float64 array on the GPU")
        return self._cp.ascontiguousarray(array)

    # ---- measuring ----

    def _measure(self, request: Message) -> dict[str, Any]:
        data, limit = self._data[request["data"]], float(request["launch_limit"])
        answer: dict[str, Any] = {"seconds": []}
        with self._outcome(answer):
            program = self._load(request, request["kernel"], data)
            answer["error"] = self._verified(program, data, limit)
            self._poison(program.slots)
            reset_persisting_lines()
            sampler = self._sampler(program, data, limit, float(request["graph_below"]))
            repeats = repeated(self._timer, sampler, StopRule(**request["rule"]), request["best"])
            answer |= {"seconds": repeats.seconds, "clock_mhz": repeats.clock}
            answer["reason"] = "; ".join(filter(None, (program.loaded.shrunk(), repeats.reason)))
            self._undamaged(program, data)
            answer["error"] = max(answer["error"], self._right(program, data, "after repeated launches: "))
            if request.get("power"):  # last: what is changed in place is not restored meanwhile
                answer["watts"] = self._timer.mean_watts(program.launch, data.copies, limit)
        return answer

    def _sampler(self, program: _Program, data: _Data, limit: float, graph_below: float) -> Callable[[], list[float]]:
        """Return times of launches, each on arrays that hold their first contents: what a kernel changes in place is
        restored outside the clock, which a graph of many launches could not leave out."""
        if not any(slot.operand.role == "inout" for slot in program.slots):
            return self._timer.sampler(program.launch, data.copies, limit, graph_below)
        return self._timer.held_sampler(
            program.launch, data.copies, limit, lambda copy: self._restore(program, data, copy)
        )

    def _restore(self, program: _Program, data: _Data, copy: int) -> None:
        for slot in program.slots:
            if slot.operand.role == "inout":
                pointer = slot.memory + copy * slot.stride
                pointer.copy_from_device_async(data.inputs[slot.operand.name].data, slot.operand.bytes, self._stream)

    def _outputs(self, request: Message) -> dict[str, Any]:
        data, limit = self._data[request["data"]], float(request["launch_limit"])
        answer = Message({"seconds": [1.0], "outputs": {}})
        with self._outcome(answer):
            program = self._load(request, request["kernel"], data)
            self._poison(program.slots)
            self._restore(program, data, 0)
            program.launch(0)
            self._timer.wait(limit)
            for slot in program.slots:
                if slot.operand.role in ("output", "inout"):
                    answer["outputs"][slot.operand.name] = answer.attach(self._cp.asnumpy(slot.array(0)).tobytes())
        return answer

    def _compare(self, request: Message) -> dict[str, Any]:
        data, limit = self._data[request["data"]], float(request["launch_limit"])
        graph_below = _COMPARED_LONGER * float(request["graph_below"])
        entrants: list[dict[str, Any]] = []
        samplers: dict[int, Callable[[], list[float]]] = {}
        for kernel in request["kernels"]:
            entrant: dict[str, Any] = {"seconds": []}
            with self._outcome(entrant):
                program = self._load(request, kernel, data)
                entrant["error"] = self._verified(program, data, limit)
                sampler = self._sampler(program, data, limit, graph_below)
                self._undamaged(program, data)
                samplers[len(entrants)] = sampler
            entrants.append(entrant)
            if entrant.get("poisoned"):
                return {"status": Status.OK.value, "entrants": entrants, "poisoned": True}
        copies = [{name: s.array(i) for name, s in data.slots.items()} for i in range(data.copies)]
        for name in request["baselines"]:
            entrant = {"seconds": [], "baseline": name}
            with self._outcome(entrant):
                samplers[len(entrants)] = self._baseline(name, data, copies, entrant, limit, graph_below)
            entrants.append(entrant)
            if entrant.get("poisoned"):
                return {"status": Status.OK.value, "entrants": entrants, "poisoned": True}
        indices = list(samplers)
        for order in interleaved(len(indices), int(request["rounds"])):
            for place in order:
                reset_persisting_lines()  # what one has marked to stay in L2 would be missing to the next
                times = sorted(samplers[indices[place]]())
                entrants[indices[place]]["seconds"].append(times[len(times) // 2])
        return {"status": Status.OK.value, "entrants": entrants, "clock_mhz": self._timer.clock}

    def _baseline(
        self,
        name: str,
        data: _Data,
        copies: list[dict[str, Any]],
        entrant: dict[str, Any],
        limit: float,
        graph_below: float,
    ) -> Callable[[], list[float]]:
        """Return a sampler of a baseline of cuda_library whose results have been checked. Raises _Unable."""
        outputs = [slot for slot in data.slots.values() if slot.operand.role == "output"]
        self._poison(outputs)
        if data.problem is None:
            raise _Unable("the operator of this problem is not known to the worker")
        call = baseline_call(name, self._cp, self._stream, data.problem, copies, data.cold_bytes)
        if isinstance(call, str):
            raise _Unable(call)
        self._timer.wait(limit)
        if name == "library":
            with suppress(CublasError):
                entrant["version"] = library_version()
        if name != "copy":
            entrant["error"] = max(self._error(slot, data)[0] for slot in outputs)
            if not entrant["error"] <= TOLERANCES:
                raise _Unable(f"{name} computes something else: it is off by {entrant['error']:.3g} tolerances")
        try:
            return self._timer.sampler(call, data.copies, limit, graph_below)
        except NoGraph:  # a library that allocates, for example
            held = self._timer.held_sampler(call, data.copies, limit)

            def sampler() -> list[float]:
                times = held()
                if self._timer.with_host:
                    entrant["reason"] = (
                        "what the host takes is in its times: it waits for the GPU, and no graph takes it"
                    )
                return times

            return sampler

    @contextmanager
    def _outcome(self, answer: dict[str, Any]) -> Iterator[None]:
        """Put the status and reason of what happens inside into ``answer``, and whether the process is now useless."""
        cuda = self._cp.cuda
        poisoned = False
        try:
            yield
            answer["status"] = Status.OK.value
        except _Wrong as error:
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

    def _load(self, request: Message, kernel: dict[str, Any], data: _Data) -> _Program:
        cp = self._cp
        self._loads += 1
        if self._loads % _LOADS_PER_FLUSH == 0:
            cp.clear_memo()  # cupy caches every module it loads; this releases the GPU's memory
        launch = launch_from_json(kernel["launch"])
        slots = []
        for operand in launch.operands:
            if operand.role == "workspace":
                own = _Slots(cp, operand, 1)  # as at run time, where launches follow each other in the same one
                own.fill(self._stream, None, 0 if operand.zeroed else GUARD)
                slots.append(own)
            elif operand.name in data.slots:
                slots.append(data.slots[operand.name])
            else:
                raise LaunchRefused(f"the kernel takes {operand.name}, which its problem does not have")
        with _file(request.blobs[kernel["cubin"]]) as path:
            program = _Program(LoadedLaunch(cp, launch, path), slots)
        program.loaded.fill_symbols({slot.operand.name: slot.array(0) for slot in slots})
        return program

    def _verified(self, program: _Program, data: _Data, limit: float) -> float:
        """Launch once on poisoned outputs, and check them; the largest error over its tolerance."""
        self._poison(program.slots)
        self._restore(program, data, 0)
        program.launch(0)
        self._timer.wait(limit)
        try:
            return self._right(program, data, "")
        except _Wrong:
            self._undamaged(program, data)  # wrong results may come with stray writes
            raise

    def _poison(self, slots: Iterable[_Slots]) -> None:
        for slot in slots:
            if slot.operand.role == "output":
                slot.memory.memset_async(0xFF, slot.operand.bytes, self._stream)  # NaN in every float type

    def _right(self, program: _Program, data: _Data, when: str) -> float:
        """Return the largest error over its tolerance. Raises _Wrong where one is not within it."""
        most = 0.0
        for slot in program.slots:
            operand = slot.operand
            if operand.role not in ("output", "inout") or operand.name not in data.reference:  # judged elsewhere
                continue
            worst, wrong, first = self._error(slot, data)
            most = max(most, worst)
            if wrong:
                wanted, allowed = data.reference[operand.name], data.tolerance[operand.name]
                value = self._element(slot.array(0), first, operand.dtype)
                bounds = self._element(wanted, first, None), self._element(allowed, first, None)
                where = tuple(int(i) for i in np.unravel_index(first, operand.shape))
                text = error_text(operand.name, where, value, *bounds, wrong=wrong, total=operand.size)
                raise _Wrong(when + text, most)
        return most

    def _error(self, slot: _Slots, data: _Data) -> tuple[float, int, int]:
        """Of an output's first copy: the largest error over its tolerance, how many elements exceed it, the first."""
        name, found = slot.operand.name, slot.array(0)
        arguments = (found, data.reference[name], data.tolerance[name], np.uint64(slot.operand.size))
        report = self._report(entry_for(slot.operand.dtype.name), self._blocks, 1, arguments)
        return float(report[2:3].view(np.float64)[0]), int(report[0]), int(report[1])

    def _element(self, array: Any, index: int, dtype: DType | None) -> float:
        one = self._cp.asnumpy(array.reshape(-1)[index : index + 1])
        return float((one if dtype is None else dtype.load(one))[0])

    def _undamaged(self, program: _Program, data: _Data) -> None:
        """Check that inputs are as they were, zeroed workspaces zero again, and nothing was written behind any
        array."""
        for slot in program.slots:
            operand = slot.operand
            if operand.role == "input":
                inside, behind = self._differences(slot, MODE_EQUAL, data.inputs[operand.name])
                complaint = f"{inside} bytes of input {operand.name} were changed"
            elif operand.zeroed:
                inside, behind = self._differences(slot, MODE_ZERO, None)
                complaint = f"{inside} bytes of workspace {operand.name} were not left zero"
            else:
                inside, behind = self._differences(slot, MODE_ANY, None)
                complaint = ""
            if inside:
                raise _Wrong(complaint, math.inf, damage=True)
            if behind:
                raise _Wrong(f"{behind} bytes behind {operand.name} were written", math.inf, damage=True)

    def _differences(self, slots: _Slots, mode: int, wanted: Any) -> tuple[int, int]:
        """Bytes that differ inside and behind the arrays of all copies."""
        expected = slots.array(0) if wanted is None else wanted
        arguments = (
            slots.array(0),
            expected,
            np.uint64(slots.operand.bytes),
            np.uint64(slots.stride),
            np.int32(mode),
            np.int32(GUARD),
        )
        blocks = max(1, min(self._blocks, math.ceil(slots.stride / THREADS)))
        report = self._report(KERNEL.entry, blocks, slots.copies, arguments)
        return int(report[0]), int(report[2])

    def _report(self, entry: str, blocks: int, slots: int, arguments: tuple[Any, ...]) -> Any:
        report, function = self._cp.asarray(np.array(initial_report(), dtype=np.uint64)), self._checks[entry]
        function((blocks, slots), (THREADS,), (*arguments, report))
        return self._cp.asnumpy(report)


def _message(answer: dict[str, Any]) -> Message:
    return answer if isinstance(answer, Message) else Message(answer)


@contextmanager
def _file(cubin: Buffer) -> Iterator[str]:
    """Yield a file that holds ``cubin``, of a new name each time: cupy remembers modules by their paths."""
    with tempfile.TemporaryDirectory(prefix="autosched-cubin-") as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        yield str(path)


class _Unable(Exception):
    """A baseline that cannot be timed."""


class _Wrong(Exception):
    """``damage``: memory that other candidates rely on was written."""

    def __init__(self, reason: str, worst: float, damage: bool = False) -> None:
        super().__init__(reason)
        self.worst = worst
        self.damage = damage


class _Slots:
    """``copies`` of one operand in one allocation, each with a gap of guard bytes behind it."""

    def __init__(self, cp: Any, operand: Operand, copies: int) -> None:
        self._cp = cp
        self.operand = operand
        self.copies = copies
        self.stride = -(-(operand.bytes + _GAP) // _ALIGNMENT) * _ALIGNMENT
        self.memory = cp.cuda.alloc(self.stride * copies)
        self._arrays: dict[int, Any] = {}

    def array(self, copy: int) -> Any:
        if copy not in self._arrays:
            storage = np.dtype(self.operand.dtype.storage)
            pointer = self.memory + copy * self.stride
            self._arrays[copy] = self._cp.ndarray(self.operand.shape, dtype=storage, memptr=pointer)
        return self._arrays[copy]

    def fill(self, stream: Any, contents: Any, byte: int = GUARD) -> None:
        """Guard bytes behind every copy; ``contents`` in it, or ``byte`` throughout where None."""
        self.memory.memset_async(GUARD, self.stride * self.copies, stream)
        for copy in range(self.copies):
            if contents is not None:
                pointer = self.memory + copy * self.stride
                pointer.copy_from_device_async(contents.data, self.operand.bytes, stream)
            elif byte != GUARD:
                (self.memory + copy * self.stride).memset_async(byte, self.operand.bytes, stream)


@dataclass(frozen=True)
class _Program:
    loaded: LoadedLaunch
    slots: list[_Slots]

    def launch(self, copy: int) -> None:
        self.loaded({s.operand.name: s.array(copy % s.copies) for s in self.slots})


@dataclass(frozen=True)
class _Data:
    problem: Problem | None  # None where its operator is not known here
    inputs: Mapping[str, Any]
    reference: Mapping[str, Any]
    tolerance: Mapping[str, Any]
    slots: dict[str, _Slots]
    copies: int
    cold_bytes: int


if __name__ == "__main__":
    import cupy

    serve(GpuWorker(cupy).handle)
