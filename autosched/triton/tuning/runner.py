"""Estimate times of Triton candidates from their machine code and the emulator's counts. No GPU is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import triton

from autosched.triton.estimate import estimated_seconds
from autosched.triton.tuning.compiling.candidate import CompiledCandidate, NotLaunched
from autosched.verify.launch_counting import MOST_BYTES, SECONDS, CountedRun, sampled_runs
from autosched.version import VERSION
from measurements.emulator import Emulation, Memory, emulate_ptx_blocks
from measurements.emulator.inputs_file import InputsFile
from measurements.runners.base import Candidate
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from search_spaces.hardware.devices import Device
from search_spaces.spaces.schedule import Schedule


@dataclass
class TritonEstimateRunner:
    """Runner (``runners.base.Runner``) that estimates the times of Triton candidates.

    ``compile`` compiles the candidate of a schedule, or raises NotLaunched. ``start`` starts a compilation in advance.
    """

    device: Device
    compile: Callable[[Schedule], CompiledCandidate]
    start: Callable[[Schedule], None] = lambda schedule: None
    name: str = "estimate"
    provenance: Provenance = Provenance.ESTIMATED
    _inputs: dict[tuple[tuple[str, int, int], ...], InputsFile] = field(default_factory=dict)
    _closed: bool = False

    def describe(self) -> str:
        """Return the device, Triton's version and the time model in one line."""
        return (
            f"candidates are compiled for {self.device.name} ({self.device.arch}) by Triton {triton.__version__}; "
            f"their times are not measured but ESTIMATED by the analytic model of autosched {VERSION} from the work of "
            "some blocks in the emulator"
        )

    def fingerprint(self) -> dict[str, str]:
        """Return a fingerprint that identifies the device, Triton's version and the time model."""
        return {
            "device": self.device.name,
            "sm": self.device.arch,
            "sm_count": str(self.device.sm_count),
            "toolchain": f"Triton {triton.__version__}",
            "model": f"the analytic model of autosched {VERSION}, from counts",
        }

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        """Estimate each candidate's time, as the Runner protocol specifies."""
        for candidate in candidates:
            self.start(candidate.schedule)
        for position, candidate in enumerate(candidates):
            if self._closed:
                return
            yield position, self._measurement(candidate.schedule)

    def close(self) -> None:
        """Mark the runner as closed. It has no processes to end."""
        self._closed = True

    def _measurement(self, schedule: Schedule) -> Measurement:
        try:
            candidate = self.compile(schedule)
        except NotLaunched as error:
            return Measurement(error.status, self.provenance, error.reason)
        status, reason, seconds = self.estimated(candidate)
        return Measurement(
            status,
            self.provenance,
            reason,
            timing=Timing.estimate(seconds) if status is Status.OK else None,
            resources=candidate.resources,
            compile_seconds=candidate.seconds,
        )

    def estimated(self, candidate: CompiledCandidate) -> tuple[Status, str, float]:
        """Return a status, the reason if the status is not ok, and the estimated seconds if it is ok."""
        runs = self.counted(candidate)
        if isinstance(runs, str):
            return Status.UNRANKED, runs, 0.0
        seconds = estimated_seconds(candidate.launch, runs, candidate.cubin, self.device)
        if seconds == float("inf"):
            return Status.OUT_OF_RESOURCES, f"a block does not fit on {self.device.name}: {candidate.summary}", 0.0
        return Status.OK, "", seconds

    def counted(self, candidate: CompiledCandidate) -> list[CountedRun] | str:
        """Run a few blocks that represent the grid. Return the runs, or the reason why these blocks cannot run."""
        if sum(o.bytes for o in candidate.launch.operands) > MOST_BYTES:
            return "no time can be estimated, because the arrays are too large for the emulator"
        inputs, memory = self.inputs_of(candidate)
        last: list[Emulation] = []

        def run(blocks: Sequence[int]) -> Emulation:
            done = emulate_ptx_blocks(
                candidate.ptx,
                candidate.launch,
                blocks,
                inputs,
                memory=memory,
                time_limit=SECONDS,
                check=False,
                count=True,
            )
            last.append(done)
            return done

        runs = sampled_runs(candidate.launch.grid, run)
        if runs is None:
            return f"no time can be estimated, because a block's work cannot be counted: {last[-1].reason}"
        return runs

    def inputs_of(self, candidate: CompiledCandidate) -> tuple[InputsFile, Memory]:
        """Return the contents of the candidate's arrays, in a file shared by all candidates with the same arrays."""
        arrays = candidate.arguments.inputs()
        key = tuple((name, array.ctypes.data, array.nbytes) for name, array in arrays.items())
        if key not in self._inputs:
            self._inputs.clear()
            self._inputs[key] = InputsFile(arrays)
        memory = candidate.arguments.memory()
        return self._inputs[key], Memory(offsets=memory.offsets, addresses=memory.addresses)
