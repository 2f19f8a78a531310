"""``autosched verify --ptx FILE``: launches of anyone's kernel, from PTX or CUDA source, and what is wrong with it.

``--json``: ``file``, ``kernel``, ``order``, ``turns``, ``orders`` (of each run, its name), ``not_run``, ``launches``,
``status``, ``reason``, ``findings``, ``suppressed`` (findings, each with its ``reason``), ``shared_sites``,
``global_sites`` (as in ``measurements.emulator``) and ``seconds``.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np
import typer

from autosched.cli.options.launch import LaunchesOption, OrderOption, TurnsOption, order_from
from autosched.cli.options.problem import whole_number
from autosched.cli.terminal.errors import MOST_SEED, NO, InputError, bad_input, within
from autosched.cli.terminal.findings import print_findings
from autosched.cli.terminal.output import print_json, stdout_console
from measurements.emulator import Suppression, check_host
from measurements.emulator.findings import Grade
from search_spaces.hardware.dtypes import SCALAR_DTYPES

COMMAND = "verify --ptx FILE"  # as usage errors name it
_ARRAY = re.compile(r"(?P<out>out\s+)?(?P<dtype>\w+)\[(?P<size>\d+)\]")


def expanded(arguments: Sequence[str]) -> list[str]:
    """``verify --ptx FILE ...`` as the command that it stands for; every other command line as it is."""
    asked = any(a == "--ptx" or a.startswith("--ptx=") for a in arguments)
    if len(arguments) > 1 and arguments[0] == "verify" and asked:
        return [COMMAND, *arguments[1:]]
    return list(arguments)


def verify_ptx(
    ptx: Annotated[str, typer.Option("--ptx", metavar="FILE", help="PTX text, or CUDA source (.cu).")],
    argument: Annotated[
        list[str] | None,
        typer.Option(
            "--argument",
            metavar="ARG",
            help="In the order of the parameters: f32[1024], 'out f32[1024]' for an array to fill, or a number.",
        ),
    ] = None,
    grid: Annotated[str, typer.Option("--grid", metavar="X[,Y,Z]", help="Blocks.")] = "1",
    block: Annotated[str, typer.Option("--block", metavar="X[,Y,Z]", help="Threads of a block.")] = "32",
    shared: Annotated[
        int, typer.Option("--shared", parser=whole_number, metavar="BYTES", help="Dynamic shared memory.")
    ] = 0,
    name: Annotated[str, typer.Option("--name", metavar="KERNEL", help="The kernel, where there are several.")] = "",
    seed: Annotated[int, typer.Option("--seed", parser=whole_number, metavar="S", help="Seed of the arrays.")] = 0,
    order: OrderOption = None,
    turns: TurnsOption = 0,
    launches: LaunchesOption = 1,
    perturb: Annotated[
        bool, typer.Option("--perturb", help="Approximate functions err as much as the PTX ISA allows.")
    ] = False,
    suppressed: Annotated[
        list[str] | None,
        typer.Option(
            "--suppress",
            metavar="KIND:FILE:LINE:REASON",
            help="A finding that is expected, and why; * stands for any kind or line.",
        ),
    ] = None,
    fail_on: Annotated[
        str, typer.Option("--fail-on", metavar="GRADE", help="What makes the exit status 1: fault, or note as well.")
    ] = "fault",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Execute a kernel and report races, bounds, uninitialised memory, barriers and masks.

    It runs twice, with blocks in ascending and in random order, unless --order or --turns say how. One that waits for
    nothing, or does not reset a counter, may be right by luck: --order interleaved and --launches 2 show it. A note is
    true by the letter of the PTX ISA and harms nothing.
    Exit status 1 where a fault is found, or where the kernel does not run.
    """
    from autosched.proofs.emulate import emulate, is_ptx

    within("--seed", seed, 0, MOST_SEED)
    asked = order_from(order, turns, launches)
    turned = asked if order is not None or turns else None
    if fail_on not in get_args(Grade):
        raise InputError(f"--fail-on {fail_on} is no grade: write {' or '.join(get_args(Grade))}")
    with bad_input():
        suppressions = [Suppression.parse(one) for one in suppressed or ()]
    try:
        text = Path(ptx).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--ptx {ptx} cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}") from None
    source = not is_ptx(text)
    if source:  # its lines are named by its file
        text = f"#line 1 {dumps(Path(ptx).name, ensure_ascii=False)}\n{text}"
    values, outputs = _values(argument or [], np.random.default_rng(seed))
    check_host(source=source)
    with bad_input():
        run = emulate(
            text,
            kernel=name,
            arguments=values,
            grid=_sizes("--grid", grid),
            block=_sizes("--block", block),
            shared_bytes=shared,
            outputs=outputs,
            perturb=perturb,
            order=turned,
            launches=launches,
            suppressions=suppressions,
        )
    status = 0 if run.ok and not (fail_on == "note" and run.findings) else NO
    if json:
        print_json(
            {
                "file": ptx,
                "kernel": name,
                "order": asked.blocks,
                "turns": asked.seed,
                "orders": [o.name for o in run.orders],
                "not_run": run.not_run,
                "launches": launches,
                "status": run.status,
                "reason": run.reason,
                "findings": [asdict(f) for f in run.findings],
                "suppressed": [asdict(f) | {"reason": reason} for f, reason in run.suppressed],
                "shared_sites": [asdict(s) for s in run.shared_sites],
                "global_sites": [asdict(s) for s in run.global_sites],
                "seconds": run.emulation.seconds,
            }
        )
        return status
    console = stdout_console()
    print_findings(console, run.emulation, run.not_run)
    clean = "nothing was found" if not run.findings else "no fault was found"
    verdict = clean if run.ok else run.status if run.findings else f"{run.status}: {run.reason}"
    if run.shared_sites:
        verdict += f"; bank conflicts up to {max(s.conflict_degree for s in run.shared_sites):.1f} x"
    console.print(verdict, markup=False, highlight=False, soft_wrap=True)
    return status


def _sizes(flag: str, text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or not all(p.strip().isdigit() and int(p) > 0 for p in parts):
        raise InputError(f"{flag} {text} is no size: write X, or X,Y,Z")
    return tuple(int(p) for p in parts)


def _values(given: Sequence[str], rng: np.random.Generator) -> tuple[list[Any], tuple[int, ...]]:
    values: list[Any] = []
    outputs: list[int] = []
    for k, text in enumerate(given):
        array = _ARRAY.fullmatch(text.strip())
        if array and array["dtype"] in SCALAR_DTYPES:
            dtype = SCALAR_DTYPES[array["dtype"]]
            values.append(np.ascontiguousarray(dtype.store(rng.standard_normal(int(array["size"])))))
            if array["out"]:
                outputs.append(k)
            continue
        try:
            values.append(int(text, 0))
        except ValueError:
            try:
                values.append(float(text))
            except ValueError:
                known = ", ".join(SCALAR_DTYPES)
                raise InputError(
                    f"--argument {text} is no number and no array: write 5, 2.5, f32[1024] or 'out f32[1024]' "
                    f"(types: {known})"
                ) from None
    return values, tuple(outputs)
