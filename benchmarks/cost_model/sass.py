"""Inspect machine code: ``python -m benchmarks.cost_model.sass matmul --device h200``, or ``... kernel.json``.

No GPU is needed. The name of an operator selects the operator's golden kernels (``tests/golden``). A file has one
document with ``problem``, ``template`` and ``schedule``, in the format of golden kernels. Instructions are counted per
warp and iteration of the main loop.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from measurements.compiler.disassembly import (
    DisassemblerMissing,
    LoopMix,
    NotDisassembled,
    disassemble,
    main_loop,
    mix,
)
from measurements.compiler.nvrtc import NvrtcMissing
from measurements.compiler.pool import CompileFailure, CompilePool
from measurements.trials.measurement import Resources
from search_spaces.catalogue import operators, problem_from_json, template
from search_spaces.hardware.devices import UnknownDevice, device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.spaces.schedule import Schedule

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
_COLUMNS = ("tensor", "float", "integer", "shared", "load", "store", "spill", "barrier", "lanes", "control")


@dataclass(frozen=True)
class Case:
    """One kernel to inspect, for ``arch``."""

    name: str
    operator: str
    arch: str
    kernel: GeneratedKernel


@dataclass(frozen=True)
class Looked:
    """A compiled kernel, with its resources and its main loop."""

    case: Case
    resources: Resources
    instructions: int
    loop: LoopMix


def read(path: Path, chip: str | None = None) -> Case:
    """Read a kernel for ``chip`` from a file (default: for the file's device). Raises ValueError, OSError."""
    try:
        data = json.loads(path.read_text())
        problem, name, schedule = problem_from_json(data["problem"]), data["template"], data["schedule"]
        target = device(chip or data["device"])
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not a document with problem, template, schedule and device: {error}") from None
    kernel = template(name).kernel(problem, Schedule.from_json(name, schedule), target)
    return Case(path.stem, problem.operator, target.arch, kernel)


def look(cases: Sequence[Case]) -> Iterator[Looked]:
    """Compile and disassemble a kernel. Raises ValueError if it does not compile, and errors of the tools."""
    with CompilePool() as pool:
        for case in cases:
            result = pool.compile(case.kernel, case.arch)
            if isinstance(result, CompileFailure):
                raise ValueError(f"{case.name} does not compile: {result.reason}")
            body = disassemble(result.cubin, result.entry)
            yield Looked(case, result.resources, len(body), mix(main_loop(body)))


def table(rows: Sequence[Looked]) -> str:
    """Return the table as Markdown."""
    head = ("kernel", "arch", "registers", "spilled bytes", "instructions", "of a turn", *_COLUMNS)
    head += ("bytes loaded by a lane", "instructions a byte", "barrier to arithmetic")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        loop, spilled = row.loop, row.resources.spill_store_bytes + row.resources.spill_load_bytes
        cells: list[object] = [row.case.name, row.case.arch, row.resources.registers, spilled, row.instructions]
        cells += [loop.instructions, *(loop.count(kind) for kind in _COLUMNS), loop.loaded_bytes]
        cells.append(f"{loop.instructions / loop.loaded_bytes:.2f}" if loop.loaded_bytes else "-")
        cells.append("-" if loop.after_barrier is None else loop.after_barrier)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def cases(names: Sequence[str], chip: str | None) -> list[Case]:
    """Return the kernels named by the arguments.

    Raises ValueError for an argument that is neither an operator nor a file.
    """
    known = {row.name for row in operators()}
    all_cases: list[Case] = []
    for name in names:
        if name in known:
            golden = sorted(GOLDEN.glob("*.json"))
            all_cases += [
                read(path, chip) for path in golden if json.loads(path.read_text())["problem"]["operator"] == name
            ]
        elif Path(name).is_file():
            all_cases.append(read(Path(name), chip))
        else:
            raise ValueError(f"{name!r} is neither an operator nor a file: operators are {', '.join(sorted(known))}")
    return all_cases


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost_model.sass", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="OPERATOR|FILE")
    parser.add_argument("--device", help="compile for this device instead of each kernel's own")
    try:
        options = parser.parse_args(arguments)
        print(table(list(look(cases(options.names, options.device)))))
    except (ValueError, OSError, UnknownDevice, DisassemblerMissing, NotDisassembled, NvrtcMissing) as error:
        print(f"benchmarks.cost_model.sass: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
