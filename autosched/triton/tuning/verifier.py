"""Verify Triton configurations: emulate each configuration, and compare its outputs with expected outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from autosched.triton.storages import storage_bytes
from autosched.triton.tensor_errors import dtype_of, numbers_of
from autosched.triton.tuning.call import KernelCall
from autosched.triton.tuning.compiling.candidate import CompiledCandidate, NotLaunched
from autosched.triton.tuning.oracle import ExpectedOutputs, SomeBlocks, WholeGrid
from autosched.triton.tuning.outputs import Expected, operand_of, values_of, written_elements
from autosched.verify.block_choice import SampleLimits, chosen_blocks, seconds_of_block
from autosched.verify.launch import LaunchUnderTest
from autosched.verify.launch_counting import MOST_BYTES
from autosched.verify.launch_plan import QUICK, LaunchPlan
from autosched.verify.launches import runs_of_launch, verdict_of, verify_launch
from autosched.verify.oracle import Oracle
from autosched.verify.planned_run import until_failure
from autosched.verify.verdict import Subject, Verdict
from measurements.emulator import ASCENDING, Emulation, Memory
from measurements.emulator.inputs_file import InputsFile
from measurements.trials.tolerance import check_tolerances
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule

Reference = Callable[..., Any]
WHOLE_SECONDS = 20.0  # CPU seconds of one run; if a run of all blocks takes longer, only some are verified
SAMPLED_SECONDS, LEAST, SAMPLED = 8.0, 3, 12  # limits for a run of some blocks: CPU seconds, and the number of blocks


class NoReference(ValueError):
    """There is no reference to compare with. The message is one line with the remedy."""


@dataclass(eq=False)
class ConfigurationVerifier:
    """Verifies configurations on one call.

    Attributes:
        compile: Compiles the candidate of a schedule for the call.
        reference: Function that is called with copies of the arguments by name. It returns outputs by name (or a tensor
            if there is only one output), or modifies its arguments in place and returns None. Without a reference,
            outputs are compared with the first of ``defaults`` that can be launched.
        tolerance: Relative and absolute tolerance; None for the default tolerance of each output's type.
        time_limit: CPU seconds of one emulated run.
        restored: Arguments that the kernel changes, and that the autotuner restores after each call.
    """

    problem: Problem
    call: KernelCall
    compile: Callable[[Schedule], CompiledCandidate]
    defaults: Sequence[Schedule]
    reference: Reference | None = None
    tolerance: tuple[float, float] | None = None
    time_limit: float = 120.0
    restored: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    against: str = ""
    _expected: dict[str, Expected] | None = None
    _blocks: int | None = None  # number of blocks to run if the grid is too large to run completely
    _inputs: InputsFile | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a tolerance that is infinite, negative or not a number."""
        check_tolerances(self.tolerance)

    def prepare(self) -> None:
        """Prepare the reference, and decide whether all blocks can run. Raises NoReference."""
        if self._expected is not None:
            return
        default = self._default()
        if default is not None:
            seconds = self._seconds_of_block(default)
            limits = SampleLimits(WHOLE_SECONDS, SAMPLED_SECONDS, LEAST, SAMPLED)
            self._blocks = limits.blocks(default.launch.blocks, seconds)
            if self._blocks is not None and self.reference is None:
                raise NoReference(
                    f"one launch at these sizes takes about {seconds * default.launch.blocks:,.0f} s in the emulator: "
                    "for verification, provide either a reference, or a smaller call with a partial last tile "
                    "(verification_args, --verification-size)"
                )
        once = None if default is None or self._blocks is not None else self._launched_twice(default)
        if self.reference is not None:
            self._expected = self._of_function(default, once)
        elif default is not None and once is not None:
            self._expected = self._of_default(default, once)

    def verify(self, schedule: Schedule, plan: LaunchPlan = QUICK) -> Verdict:
        """Make the runs of a plan until one fails, and compare the outputs of each run with the reference.

        Args:
            schedule: The configuration.
            plan: Plan of the runs. If the grid is too large to run completely, only two runs of some blocks are made
                (``LaunchPlan.of_some_blocks``).

        Returns:
            The verdict.

        Raises:
            NoReference: There is no reference to compare with.
        """
        self.prepare()
        subject = Subject(self.problem, schedule)
        try:
            candidate = self.compile(schedule)
        except NotLaunched as error:
            return Verdict.not_launched(error.status.value, error.reason, subject)
        plan = replace(plan, time_limit=self.time_limit)
        outputs, lacks = ExpectedOutputs(self.call, self._expected or {}, self.against, self.tolerance), self.lacks
        launch = self._launch(candidate)
        oracle: Oracle = WholeGrid(outputs, candidate)
        if self._blocks is not None:
            plan, oracle = plan.of_some_blocks(), SomeBlocks(outputs, candidate)
            blocks = chosen_blocks(candidate.launch.grid, self._blocks, seed=0)
            launch = self._launch_of_blocks(candidate, blocks)
            lacks = (*lacks, f"{len(blocks)} of the {candidate.launch.blocks:,} blocks of the grid ran")
        verdict = verdict_of(list(until_failure(runs_of_launch(launch, plan, oracle))), plan)
        cases = (f"against {self.against}",)
        runs = tuple(
            replace(run, problem=self.problem, cases=cases, emulation=run.emulation.without_arrays())
            for run in verdict.runs
        )
        emulation = verdict.emulation.without_arrays()
        return replace(verdict, subject=subject, missing=lacks, runs=runs, emulation=emulation)

    def _launch(self, candidate: CompiledCandidate) -> LaunchUnderTest:
        return LaunchUnderTest(
            candidate.ptx, candidate.arguments.inputs(), candidate.launch, candidate.arguments.memory()
        )

    def _launch_of_blocks(self, candidate: CompiledCandidate, blocks: Sequence[int]) -> LaunchUnderTest:
        memory = candidate.arguments.memory()
        return LaunchUnderTest(
            candidate.ptx, self._inputs_of(candidate), candidate.launch,
            Memory(offsets=memory.offsets, addresses=memory.addresses), tuple(blocks),
        )  # fmt: skip

    def _launched_twice(self, default: CompiledCandidate) -> Emulation:
        """Launch the default configuration twice on the same memory, and return the emulation of the first launch."""
        verdict = verify_launch(self._launch(default), LaunchPlan(second_launch=True, time_limit=self.time_limit))
        adds = [
            name
            for name, tensor in self.call.tensors()
            if name not in self.restored and operand_of(default, tensor) in verdict.accumulating
        ]
        if adds:  # benchmarks launch a kernel repeatedly, so such changes would add up
            self.notes.append(
                f"a second call changes the values of {', '.join(adds)}: a benchmark that repeats calls must restore "
                "them (reset_to_zero= or restore_value= of @triton.autotune); this verification copies the arguments "
                "for each run"
            )
        return verdict.runs[0].emulation

    def _inputs_of(self, candidate: CompiledCandidate) -> InputsFile:
        if self._inputs is None:
            self._inputs = InputsFile(candidate.arguments.inputs())
        return self._inputs

    def _seconds_of_block(self, candidate: CompiledCandidate) -> float:
        """Return how many seconds the emulation of one block takes; 0 if this is unknown or not needed."""
        if candidate.launch.blocks <= SAMPLED or sum(o.bytes for o in candidate.launch.operands) > MOST_BYTES:
            return 0.0

        def run(blocks: Sequence[int]) -> Emulation:
            return self._launch_of_blocks(candidate, blocks).run(ASCENDING, time_limit=self.time_limit)

        return seconds_of_block(run, candidate.launch.blocks) or 0.0

    def _of_function(self, default: CompiledCandidate | None, once: Emulation | None) -> dict[str, Expected]:
        assert self.reference is not None
        self.against = f"the reference {getattr(self.reference, '__name__', 'function')}"
        copies = {name: _copied(value) for name, value in self.call.arguments.items()}
        outputs = {name: tensor.clone() for name, tensor in self.call.outputs.items()}
        results = self.reference(**copies, **outputs)
        tensors = dict(self.call.tensors())
        if isinstance(results, torch.Tensor):
            results = {self._only_output(default, once): results}
        elif results is None:
            changed = {**copies, **outputs}
            results = {n: t for n, t in changed.items() if isinstance(t, torch.Tensor) and not _same(t, tensors[n])}
        if not isinstance(results, Mapping) or not results:
            raise NoReference(
                f"{self.against} returns no outputs: return a dict with the names of the kernel's parameters as keys"
            )
        expected = {}
        for name, values in results.items():
            if name not in tensors:
                raise NoReference(f"{self.against} returns {name!r}, which is not one of {', '.join(tensors)}")
            values = torch.as_tensor(values)
            # integers of equal types are compared exactly; all other values are compared as floats
            is_exact = values.dtype == tensors[name].dtype
            reference_values = numbers_of(values) if is_exact else values.double().numpy()
            if reference_values.shape != tuple(tensors[name].shape):
                raise NoReference(
                    f"{self.against} returns {name} of shape {reference_values.shape}, but the tensor has "
                    f"{tuple(tensors[name].shape)}"
                )
            every = np.ones(reference_values.shape, np.bool_)
            expected[name] = Expected(reference_values, every, rounded_to=dtype_of(values.dtype))
        return expected

    def _only_output(self, default: CompiledCandidate | None, once: Emulation | None) -> str:
        if default is None or once is None:
            raise NoReference(
                f"{self.against} returns one tensor: return a dict with the names of the kernel's parameters as keys"
            )
        written = [name for name, tensor in self.call.tensors() if written_elements(default, once, tensor).any()]
        if len(written) != 1:
            raise NoReference(
                f"{self.against} returns one tensor, but the kernel writes {', '.join(written)}: return all outputs by "
                f"name"
            )
        return written[0]

    def _of_default(self, candidate: CompiledCandidate, done: Emulation) -> dict[str, Expected]:
        if done.status != "ok":
            raise NoReference(f"{self.against} itself fails verification: {done.reason}")
        expected = {}
        for name, tensor in self.call.tensors():
            where = written_elements(candidate, done, tensor)
            if where.any():
                written = done.written[operand_of(candidate, tensor)]
                values = values_of(candidate, done.outputs, tensor)
                expected[name] = Expected(values, where, written, dtype_of(tensor.dtype))
        if not expected:
            raise NoReference("the default configuration writes no argument: name the written tensors in outputs")
        return expected

    def _default(self) -> CompiledCandidate | None:
        """Return the first default configuration that can be launched.

        If there is none, return None if the user gave a reference, else raise NoReference.
        """
        reason = ""
        for k, schedule in enumerate(self.defaults):
            shown = ", ".join(f"{name}={value}" for name, value in schedule.items)
            try:
                candidate = self.compile(schedule)
            except NotLaunched as error:
                reason = reason or f"{shown}: {error.reason}"
                continue
            which = "the default configuration" if k == 0 else f"configuration {k + 1} of those listed"
            self.against = f"{which} ({shown})"
            if k:
                self.notes.append(f"the first {k} listed configurations cannot be launched ({reason})")
            return candidate
        if self.reference is not None:
            return None
        reason = reason or "a rule rejects it"
        raise NoReference(
            f"the default configuration cannot be launched ({reason}): choose another default, or provide a reference"
        )


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and np.array_equal(storage_bytes(a.untyped_storage()), storage_bytes(b.untyped_storage()))
