"""Verify configurations of a Triton kernel: emulate each, and compare it with a reference or the default one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from autosched.triton.storages import storage_bytes
from autosched.triton.tuning.call import KernelCall
from autosched.triton.tuning.compiling.candidate import CompiledCandidate, NotLaunched
from autosched.triton.tuning.oracle import ExpectedOutputs, SomeBlocks, WholeGrid
from autosched.triton.tuning.outputs import Expected, operand_of, values_of, written_elements
from autosched.verify.block_choice import chosen_blocks
from autosched.verify.launch import LaunchUnderTest
from autosched.verify.launch_counting import MOST_BYTES
from autosched.verify.launch_plan import QUICK, LaunchPlan
from autosched.verify.launches import compared, make_runs, until_failure, verdict_of
from autosched.verify.run import Run
from autosched.verify.verdict import Subject, Verdict
from measurements.emulator import ASCENDING, Emulation, Memory, Order, emulate_ptx_blocks
from measurements.emulator.inputs_file import InputsFile
from measurements.emulator.sparse import SparseEmulation
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule

Reference = Callable[..., Any]
WHOLE_SECONDS = 20.0  # of one run: a launch that takes longer is verified on some of its blocks
LEAST, SAMPLED = 3, 12  # blocks of it, of which a run takes about
SAMPLED_SECONDS = 8.0
_START_SECONDS = 0.03  # of a run, whatever it runs


class NoReference(ValueError):
    """There is nothing to compare with. The message is one line that says what to do."""


@dataclass(eq=False)
class ConfigurationVerifier:
    """Verifies configurations on one call.

    ``compile`` makes a candidate of a schedule for that call. ``reference`` is called with the arguments by name, on
    copies, and returns outputs by name (a tensor alone where there is one output), or changes them in place and returns
    None; without one the first of ``defaults`` that can be launched is emulated. ``tolerance`` is relative and
    absolute, by default what the type of each output allows. ``time_limit``: CPU seconds of one emulated run.
    ``restored`` are arguments whose change by a call is known and taken back.
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
    _sampled: int = 0  # blocks of a grid that is too large to be run whole
    _inputs: InputsFile | None = None

    def prepare(self) -> None:
        """Find what to compare with, and whether the whole grid can be run. Raises NoReference."""
        if self._expected is not None:
            return
        default = self._default()
        each = 0.0 if default is None else self._seconds_of_block(default)
        if default is not None and each * default.launch.blocks > WHOLE_SECONDS:
            self._sampled = max(LEAST, min(SAMPLED, int(SAMPLED_SECONDS / each)))
            if self.reference is None:
                seconds = each * default.launch.blocks
                raise NoReference(
                    f"one launch at these sizes takes about {seconds:,.0f} s in the emulator: give "
                    "a smaller call to prove on (proof_args, --proof-size), whose last tile is not full, or a reference"
                )
        if self.reference is not None:
            if default is not None and not self._sampled:
                self._note_repeated_calls(default, self._run(default))
            self._expected = self._of_function(default)
        elif default is not None:
            self._expected = self._of_default(default)

    def verify(self, schedule: Schedule, plan: LaunchPlan = QUICK) -> Verdict:
        """Make the runs of a plan until one fails, and compare each with the reference.

        Args:
            schedule: The configuration.
            plan: Its runs; at most two of them for a grid that is too large to run whole.

        Returns:
            The verdict.

        Raises:
            NoReference: There is nothing to compare with.
        """
        self.prepare()
        subject = Subject(self.problem, schedule)
        try:
            made = self.compile(schedule)
        except NotLaunched as error:
            return Verdict.not_launched(error.status.value, error.reason, subject)
        orders = plan.orders[:2] if self._sampled else plan.orders
        plan = replace(plan, orders=orders, time_limit=self.time_limit)
        outputs = ExpectedOutputs(self.call, self._expected or {}, self.against, self.tolerance)
        if self._sampled:
            made_runs = self._runs_of_blocks(made, plan, outputs)
        else:
            made_runs = make_runs(self._launch(made), plan, WholeGrid(outputs, made))
        verdict = verdict_of(list(until_failure(made_runs)), plan)
        lacks = self.lacks
        if self._sampled:
            blocks = len(chosen_blocks(made.launch.grid, self._sampled, seed=0))
            lacks = (*lacks, f"{blocks} of the {made.launch.blocks:,} blocks of the grid were run")
        cases = (f"against {self.against}",)
        runs = tuple(
            replace(run, problem=self.problem, cases=cases, emulation=replace(run.emulation, outputs={}, written={}))
            for run in verdict.runs
        )
        emulation = replace(verdict.emulation, outputs={}, written={})
        return replace(verdict, subject=subject, missing=lacks, runs=runs, emulation=emulation)

    def _launch(self, made: CompiledCandidate) -> LaunchUnderTest:
        return LaunchUnderTest(made.ptx, made.arguments.inputs(), made.launch, made.arguments.memory())

    def _run(self, made: CompiledCandidate, launches: int = 1) -> Emulation:
        return self._launch(made).run(ASCENDING, launches=launches, time_limit=self.time_limit)

    def _runs_of_blocks(self, made: CompiledCandidate, plan: LaunchPlan, outputs: ExpectedOutputs) -> Iterator[Run]:
        blocks = chosen_blocks(made.launch.grid, self._sampled, seed=0)
        for item in plan.runs:
            found = self._emulate_some(made, blocks, item.order)
            yield compared(item, found.emulation, SomeBlocks(outputs, made, found.written), len(blocks))

    def _emulate_some(
        self, made: CompiledCandidate, blocks: Sequence[int], order: Order = ASCENDING
    ) -> SparseEmulation:
        memory = made.arguments.memory()
        return emulate_ptx_blocks(
            made.ptx,
            made.launch,
            blocks,
            self._inputs_of(made),
            order=order,
            time_limit=self.time_limit,
            memory=Memory(offsets=memory.offsets, addresses=memory.addresses),
        )

    def _inputs_of(self, made: CompiledCandidate) -> InputsFile:
        if self._inputs is None:
            self._inputs = InputsFile(made.arguments.inputs())
        return self._inputs

    def _seconds_of_block(self, made: CompiledCandidate) -> float:
        """Return what the emulation of one block takes."""
        if made.launch.blocks <= SAMPLED or sum(o.bytes for o in made.launch.operands) > MOST_BYTES:
            return 0.0
        done = self._emulate_some(made, [made.launch.blocks // 2]).emulation
        return max(done.run_seconds - _START_SECONDS, 0.0)

    def _of_function(self, default: CompiledCandidate | None) -> dict[str, Expected]:
        assert self.reference is not None
        self.against = f"the reference {getattr(self.reference, '__name__', 'function')}"
        copies = {name: _copied(value) for name, value in self.call.arguments.items()}
        outputs = {name: tensor.clone() for name, tensor in self.call.outputs.items()}
        found = self.reference(**copies, **outputs)
        tensors = dict(self.call.tensors())
        if isinstance(found, torch.Tensor):
            found = {self._only_output(default): found}
        elif found is None:
            changed = {**copies, **outputs}
            found = {n: t for n, t in changed.items() if isinstance(t, torch.Tensor) and not _same(t, tensors[n])}
        if not isinstance(found, Mapping) or not found:
            raise NoReference(f"{self.against} gives no outputs: return them by the names of the kernel's parameters")
        expected = {}
        for name, values in found.items():
            if name not in tensors:
                raise NoReference(f"{self.against} gives {name!r}, which is none of {', '.join(tensors)}")
            wanted = torch.as_tensor(values).double().numpy()
            if wanted.shape != tuple(tensors[name].shape):
                raise NoReference(
                    f"{self.against} gives {name} of shape {wanted.shape}, and it has {tuple(tensors[name].shape)}"
                )
            expected[name] = Expected(wanted, np.ones(wanted.shape, np.bool_), None)
        return expected

    def _only_output(self, default: CompiledCandidate | None) -> str:
        if default is None or self._sampled:
            raise NoReference(
                f"{self.against} gives one tensor: return outputs by the names of the kernel's parameters"
            )
        done = self._run(default)
        written = [name for name, tensor in self.call.tensors() if written_elements(default, done, tensor).any()]
        if len(written) != 1:
            raise NoReference(f"{self.against} gives one tensor, and the kernel writes {', '.join(written)}: name them")
        return written[0]

    def _of_default(self, made: CompiledCandidate) -> dict[str, Expected]:
        done = self._run(made)
        if done.status != "ok":
            raise NoReference(f"{self.against} is wrong by itself: {done.reason}")
        self._note_repeated_calls(made, done)
        expected = {}
        for name, tensor in self.call.tensors():
            where = written_elements(made, done, tensor)
            if where.any():
                written = done.written[operand_of(made, tensor)]
                expected[name] = Expected(values_of(made, done.outputs, tensor), where, written)
        if not expected:
            raise NoReference("the default configuration writes no tensor that is an argument: name it in outputs")
        return expected

    def _note_repeated_calls(self, made: CompiledCandidate, once: Emulation) -> None:
        """Whoever times a kernel calls it again and again: that must leave the same each time."""
        twice = self._run(made, launches=2)
        if once.status != "ok" or twice.status != "ok":
            return
        adds = [
            name
            for name, tensor in self.call.tensors()
            if name not in self.restored
            and once.outputs[operand_of(made, tensor)].tobytes() != twice.outputs[operand_of(made, tensor)].tobytes()
        ]
        if adds:
            self.notes.append(
                f"a second call leaves other values in {', '.join(adds)}: whoever times calls in a loop must give them "
                "back what they held (reset_to_zero= or restore_value= of @triton.autotune); here each run has its own"
            )

    def _default(self) -> CompiledCandidate | None:
        """Return the first default configuration that the device can launch; None where there is a reference in its
        place."""
        reason = ""
        for k, schedule in enumerate(self.defaults):
            shown = ", ".join(f"{name}={value}" for name, value in schedule.items)
            try:
                made = self.compile(schedule)
            except NotLaunched as error:
                reason = reason or f"{shown}: {error.reason}"
                continue
            which = "the default configuration" if k == 0 else f"configuration {k + 1} of those listed"
            self.against = f"{which} ({shown})"
            if k:
                self.notes.append(f"the first {k} listed cannot be launched ({reason})")
            return made
        if self.reference is not None:
            return None
        reason = reason or "a rule refuses it"
        raise NoReference(
            f"the default configuration cannot be launched ({reason}): name another default, or give a reference"
        )


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and np.array_equal(storage_bytes(a.untyped_storage()), storage_bytes(b.untyped_storage()))
