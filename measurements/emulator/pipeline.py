"""Run the launches of a pipeline one after another on the same memory.

Between launches, arrays have a flag per byte, which is true if the byte is defined. So a read of bytes that no earlier
launch has written is detected, as within one launch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from measurements.emulator.findings import Emulation, ExecutedLine, Finding, FindingKind, status_of
from measurements.emulator.memory import Flags, Memory
from search_spaces.arrays import Array
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import Argument, Launch
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import TensorMap
from search_spaces.launches.texture import LinearTexture

RunStep = Callable[[GeneratedKernel, Mapping[str, Array], Memory], Emulation]
_ENDED = ("ok", "findings")


@dataclass
class _Content:
    """Contents of an array between two launches. ``defined`` and ``written`` have a flag for each byte."""

    operand: Operand
    array: Array
    defined: Flags
    written: Flags


def run_steps(kernel: GeneratedKernel, inputs: Mapping[str, Array], calls: int, run: RunStep) -> Emulation:
    """Run all launches of ``kernel`` as one emulation.

    Args:
        kernel: The first launch of the pipeline, which refers to the other launches.
        inputs: An array for each operand of role input or inout of the pipeline.
        calls: Number of back-to-back runs of the pipeline on the same memory. Outputs are poisoned before each run.
        run: Executes one launch on arrays and memory.

    Returns:
        The pipeline's outputs, and counts and findings of all launches. If a launch does not end, its status is
        returned, and later launches do not run.
    """
    contents = {o.name: _initial(o, inputs) for o in kernel.operands if o.role != "input"}
    done: list[Emulation] = []
    for call in range(calls):
        if call:
            fresh = {o.name: _initial(o, inputs) for o in kernel.operands if o.role == "output"}
            contents.update(fresh)
        for content in contents.values():
            content.written[:] = False
        for step in kernel.steps:
            arrays, memory = _arrays_of_step(step, kernel, inputs, contents)
            emulation = run(_in_place(step, kernel), arrays, memory)
            done.append(_named(emulation, step))
            if emulation.status not in _ENDED:
                return replace(_together(done), status=emulation.status, reason=f"{step.name}: {emulation.reason}")
            for name, array in emulation.outputs.items():
                content = contents[name]
                content.array = array
                content.defined = emulation.defined.get(name, np.ones(array.nbytes, np.bool_))
                content.written |= emulation.written.get(name, np.ones(array.nbytes, np.bool_))
    together = _together(done)
    whole = [*together.findings, *_at_the_end(contents)]
    status, reason = status_of(whole)
    outputs = {name: c.array for name, c in contents.items() if c.operand.role in ("output", "inout")}
    return replace(together, status=status, reason=reason, findings=tuple(whole), outputs=outputs)


def _initial(operand: Operand, inputs: Mapping[str, Array]) -> _Content:
    storage, nothing = np.dtype(operand.dtype.storage), np.zeros(operand.bytes, np.bool_)
    if operand.role == "inout":
        return _Content(operand, inputs[operand.name], ~nothing, nothing.copy())
    if operand.zeroed:
        return _Content(operand, np.zeros(operand.shape, storage), ~nothing, nothing.copy())
    array = np.full(operand.bytes, 0xFF, np.uint8).view(storage).reshape(operand.shape)
    return _Content(operand, array, nothing, nothing.copy())


def _alone(operand: Operand, kernel: GeneratedKernel) -> bool:
    """Return True if only one launch uses an output. The output can then be checked as an output of this launch."""
    return operand.role == "output" and sum(operand in step.operands for step in kernel.steps) == 1


def _in_place(step: GeneratedKernel, kernel: GeneratedKernel) -> GeneratedKernel:
    """Return the launch. Each array that other launches also use is declared as an inout array."""

    def seen(operand: Operand) -> Operand:
        unchanged = operand.role == "input" or _alone(operand, kernel)
        return operand if unchanged else replace(operand, role="inout", zeroed=False)

    def passed(argument: Argument) -> Argument:
        if isinstance(argument, TensorMap | LinearTexture):
            return replace(argument, operand=seen(argument.operand))
        return seen(argument) if isinstance(argument, Operand) else argument

    return replace(step, arguments=tuple(map(passed, step.arguments)))


def _arrays_of_step(
    step: Launch, kernel: GeneratedKernel, inputs: Mapping[str, Array], contents: Mapping[str, _Content]
) -> tuple[dict[str, Array], Memory]:
    arrays, defined = {}, {}
    for operand in step.operands:
        if operand.role == "input":
            arrays[operand.name] = inputs[operand.name]
        elif not _alone(operand, kernel):
            arrays[operand.name] = contents[operand.name].array
            defined[operand.name] = contents[operand.name].defined
    return arrays, Memory(defined=defined)


def _named(emulation: Emulation, step: GeneratedKernel) -> Emulation:
    """Return the result of a launch, with the launch's name added to findings without a source line."""
    findings = [f if f.file else replace(f, message=f"{step.name}: {f.message}") for f in emulation.findings]
    return replace(emulation, findings=tuple(findings))


def _at_the_end(contents: Mapping[str, _Content]) -> list[Finding]:
    """Check outputs and zeroed workspaces after the last launch, and return findings."""
    findings = []
    for name, content in contents.items():
        bytes_of = content.operand.dtype.bytes
        if content.operand.role == "output" and not content.written.all():
            missing = np.flatnonzero(~content.written.reshape(-1, bytes_of).all(axis=1))
            message = (
                f"{missing.size} of {content.operand.size} elements of {name} were never written; the first is element "
                f"{missing[0]}"
            )
            findings.append(Finding(FindingKind.UNWRITTEN_OUTPUT, message, "", 0))
        if content.operand.role == "workspace" and content.operand.zeroed and content.array.view(np.uint8).any():
            message = f"{name} is not zero after the last launch"
            findings.append(Finding(FindingKind.WORKSPACE_NOT_ZERO, message, "", 0))
    return findings


def _joined(lines: Sequence[ExecutedLine]) -> tuple[ExecutedLine, ...]:
    """Merge the executed lines of several launches, and add up their executions."""
    merged: dict[tuple[str, int, str], ExecutedLine] = {}
    for line in lines:
        key = (line.file, line.line, line.operation)
        before = merged.get(key, line._replace(times=0))
        # The maximum, because several launches of a kernel have the same instructions.
        most = max(before.instructions, line.instructions)
        merged[key] = before._replace(instructions=most, times=before.times + line.times)
    return tuple(merged.values())


def _together(done: list[Emulation]) -> Emulation:
    executed: dict[str, int] = {}
    for emulation in done:
        for operation, times in emulation.executed:
            executed[operation] = executed.get(operation, 0) + times
    findings = tuple(f for e in done for f in e.findings)
    return Emulation(
        status="ok",
        outputs={},
        findings=tuple(dict.fromkeys(findings)),
        shared_sites=tuple(site for e in done for site in e.shared_sites),
        global_sites=tuple(site for e in done for site in e.global_sites),
        printed="".join(e.printed for e in done),
        compile_seconds=sum(e.compile_seconds for e in done),
        run_seconds=sum(e.run_seconds for e in done),
        from_cache=all(e.from_cache for e in done),
        executed=tuple(sorted(executed.items())),
        lines=_joined([line for e in done for line in e.lines]),
        chains=(sum(e.chains[0] for e in done), sum(e.chains[1] for e in done)),
        code=sum(e.code for e in done),
    )
