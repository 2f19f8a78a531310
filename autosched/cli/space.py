"""``autosched space``: how many schedules there are, what they decide, and what each rule removes."""

import json as json_text
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from autosched import report
from autosched.cli.devices import DeviceOption, named_device
from autosched.cli.errors import InputError, at_least
from autosched.cli.output import print_json, stdout_console
from autosched.cli.problem_options import problem_from, whole_number
from search_spaces.family import Family
from search_spaces.problem import Problem
from search_spaces.rules import Violation
from search_spaces.schedule import Schedule
from search_spaces.space import Space

_SHOWN_VALUES = 12  # of a parameter in the table; --json gives all


def space(
    family: Family,
    given: Mapping[str, Any],
    device: DeviceOption = None,
    sample: Annotated[
        int, typer.Option("--sample", parser=whole_number, metavar="N", help="Also show N random legal schedules.")
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", parser=whole_number, metavar="S", help="Seed of the samples.")] = 0,
    explain: Annotated[
        str | None,
        typer.Option(
            "--explain",
            metavar="FILE",
            help="Check one schedule, a JSON object of parameter values ('-': stdin), against every rule; "
            "exit status 1 if it is illegal.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Count the legal schedules, list parameters and rules, draw samples.

    Without --device the space is that of the GPU in this machine, or of an h200 where there is none.
    """
    at_least("--sample", sample, 0)
    at_least("--seed", seed, 0)
    problem, target = problem_from(family, given), named_device(device)
    started = time.perf_counter()
    whole = family.space(problem, target.device)
    if explain is not None:
        return _explain(family, whole, _read_schedule(explain), json)
    legal = whole.count()
    seconds = time.perf_counter() - started
    samples = whole.sample(sample, seed) if sample else ()
    if json:
        print_json(
            {
                "problem": problem.to_json(),
                "device": target.device.name,
                "raw": whole.raw_count(),
                "legal": legal,
                "seconds": seconds,
                "parameters": [
                    {"name": p.name, "kind": p.kind, "values": p.values, "doc": p.doc} for p in whole.parameters
                ],
                "rules": _rules_json(whole),
                "seed": seed,
                "samples": [s.to_json() for s in samples],
            }
        )
    else:
        _show(problem, target.text, whole, legal, seconds, samples)
    return 0
