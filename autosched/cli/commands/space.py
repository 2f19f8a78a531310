"""``autosched space``: count the legal schedules of a problem, and show parameters, rules and samples.

``--json`` prints ``problem``, ``device``, ``raw`` and ``legal`` (numbers of combinations and of legal schedules in all
templates), ``seconds`` (time spent counting), and:

- ``templates``: ``name``, ``version`` and ``why_not`` (null, or why the template cannot compute the problem) of each
  template. If ``why_not`` is null, also ``raw``, ``legal``, ``parameters`` (``name``, ``kind``, ``values``, ``doc``)
  and ``rules`` (``name``, ``kind``: "valid" or "pruning", ``rejects``: number of raw combinations that break this
  rule, ``doc``)
- ``seed`` and ``samples``: ``template`` and ``schedule`` of each sample. Each sample of a tile program also has
  ``values`` (``place``, ``operation``, ``shape``, ``spread``, ``distribution``, ``registers``) and ``conversions``
  (``place``, ``shape``, ``source``, ``target``, ``route``, ``cost``)
- with ``--explain``: ``template``, ``schedule``, ``legal`` and ``violations`` (``rule``, ``reason``)

``--picture`` also draws layouts to a file.
"""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from autosched.cli.options import schedule_file
from autosched.cli.options.devices import DEVICE_NOTE, DeviceOption, target
from autosched.cli.options.problem import problem_from, whole_number
from autosched.cli.options.schedule_file import KEYS
from autosched.cli.options.templates import TemplateOption
from autosched.cli.terminal.console import show, show_readings, stderr_console, stdout_console
from autosched.cli.terminal.errors import MOST_SAMPLES, MOST_SEED, InputError, bad_input, listed, within
from autosched.cli.terminal.output import answer, print_json
from autosched.cli.terminal.output_files import check_picture, replaceable
from autosched.reporting import formatting
from autosched.reporting.exit_status import ExitStatus
from autosched.reporting.readings import is_program_problem, readings_json
from search_spaces.catalogue import candidates, templates_for
from search_spaces.hardware.devices import Device
from search_spaces.operators.operator import Operator
from search_spaces.operators.problem import Problem
from search_spaces.spaces.parameters import Parameter
from search_spaces.spaces.rules import Rejection
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space
from search_spaces.templates.template import TemplateSet

if TYPE_CHECKING:
    from search_spaces.programs.problem import ProgramProblem

_SHOWN_VALUES = 12  # maximum number of values that the table shows for a parameter; --json prints all
_LEGEND = "rejects: number of combinations that break this rule, including combinations that also break other rules"


def space(  # noqa: D103  (its docstring is assigned below)
    operator: Operator,
    values: Mapping[str, Any],
    *,
    device: DeviceOption = None,
    template: TemplateOption = None,
    sample: Annotated[
        int,
        typer.Option(
            "--sample",
            parser=whole_number,
            metavar="N",
            help=f"Random legal schedules to show, at most {MOST_SAMPLES:,}.",
        ),
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", parser=whole_number, metavar="S", help="Seed of the samples.")] = 0,
    explain: Annotated[
        str | None,
        typer.Option(
            "--explain",
            metavar="FILE",
            help="Show which rules one schedule breaks; exit status 1 if any. FILE (- for stdin) contains the "
            "schedule: a JSON object of its parameters, or JSON output of autosched with one schedule under "
            f"{listed(KEYS, 'or')}.",
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--picture",
            metavar="FILE",
            help="Draw the layouts of the first sample, or of the schedule of --explain, to FILE.svg or FILE.png.",
        ),
    ] = None,
    pictures: Annotated[
        Path | None,
        typer.Option(
            "--pictures",
            metavar="DIR",
            help="Draw the values of a tile program (--program) into DIR: which thread holds which elements, for the "
            "first sample or the schedule of --explain.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    check_picture("--picture", picture)
    if picture is not None and not picture.parent.is_dir():
        raise InputError(
            f"--picture cannot write {picture} (the folder does not exist): name a file in an existing folder"
        )
    within("--sample", sample, 0, MOST_SAMPLES)
    within("--seed", seed, 0, MOST_SEED)
    problem, where = problem_from(operator, values), target(device)
    if pictures is not None:
        _check_pictures(problem, pictures)
    started = time.perf_counter()
    with bad_input():
        usable = templates_for(problem, where, template or None)
    spaces = {t.name: t.space(problem, where) for t in usable}
    if explain is not None:
        schedule = schedule_file.read(explain, {name: s.parameters for name, s in spaces.items()})
        status = _explain(spaces[schedule.template], schedule, as_json=json)
        if picture is not None and status == 0:
            _draw(usable, problem, schedule, where, picture)
        if pictures is not None and status == 0:
            _draw_program(problem, schedule, pictures)
        return status
    legal = {name: s.count() for name, s in spaces.items()}
    rejects = {name: s.rejects() if legal[name] else [] for name, s in spaces.items()}
    seconds = time.perf_counter() - started
    # only if requested, because drawing samples is slow and fails for an empty space
    samples = usable.space(problem, where).sample(sample, seed) if sample else []
    if picture is not None:
        _draw(usable, problem, (samples or usable.space(problem, where).sample(1, seed))[0], where, picture)
    if pictures is not None:
        _draw_program(problem, (samples or usable.space(problem, where).sample(1, seed))[0], pictures)
    listed_templates = [(t, why_not) for t, why_not in candidates(problem, where) if not template or t.name in template]
    if json:
        print_json(
            {
                "problem": problem.to_json(),
                **readings_json(problem),
                "device": where.name,
                "raw": sum(s.raw_count for s in spaces.values()),
                "legal": sum(legal.values()),
                "seconds": seconds,
                "templates": [
                    {
                        "name": t.name,
                        "version": t.version,
                        "why_not": why_not,
                        **({} if why_not else _space_json(spaces[t.name], legal[t.name], rejects[t.name])),
                    }
                    for t, why_not in listed_templates
                ],
                "seed": seed,
                "samples": [
                    {"template": s.template, "schedule": s.to_json(), **_program_json(problem, s)} for s in samples
                ],
            }
        )
        return 0
    console = stdout_console()
    console.print(f"{formatting.one_line(problem)} on {where.name}")
    facts = [
        ("legal schedules", formatting.count(sum(legal.values()))),
        ("counted in", formatting.duration(seconds)),
    ]
    show(console, formatting.facts(facts))
    show_readings(console, problem)
    for one, why_not in listed_templates:
        console.print()
        console.print(f"template {one.name}: {one.summary}")
        if why_not is not None:
            console.print(f"not for this problem: {why_not}", style="dim")
            continue
        _show_space(console, spaces[one.name], legal[one.name], rejects[one.name])
    for i, schedule in enumerate(samples):
        console.print()
        console.print(f"sample {i + 1} of {len(samples)}, seed {seed}, template {schedule.template}")
        show(console, formatting.decisions(schedule, console.width))
        if is_program_problem(problem):
            _show_program(console, problem, schedule)
    return 0


space.__doc__ = f"""Count the legal schedules, and show parameters, rules and samples.

{DEVICE_NOTE}
"""


def _program_json(problem: Problem, schedule: Schedule) -> dict[str, Any]:
    """Return the ``values`` and ``conversions`` that a tile program has with this schedule; {} for other problems."""
    if not is_program_problem(problem):
        return {}
    from search_spaces.programs.schedules import describe

    return {
        "values": [asdict(v) for v in describe.values(problem, schedule.values)],
        "conversions": [asdict(c) for c in describe.conversions(problem, schedule.values)],
    }


def _show_program(console: Console, problem: "ProgramProblem", schedule: Schedule) -> None:
    """Print how a tile program's values are distributed over threads, and which conversions it needs."""
    from search_spaces.programs.schedules import describe

    console.print()
    for value in describe.values(problem, schedule.values):
        console.print(
            f"{value.location}: {value.operation} {value.shape}: {value.spread}, {value.registers} registers: "
            f"{value.distribution}",
            markup=False,
        )
    conversions = describe.conversions(problem, schedule.values)
    console.print(f"conversions: {len(conversions) or 'none'}")
    for c in conversions:
        cost = f", {c.cost} warp instructions" if c.cost else ""
        console.print(f"{c.location}: {c.shape}: {c.source} -> {c.target}: {c.route}{cost}", markup=False)


def _space_json(space_of_operator: Space, legal: int, rejects: Sequence[Rejection]) -> dict[str, Any]:
    docs = {rule.name: rule.doc for rule in space_of_operator.rules}
    valid = {rule.name for rule in space_of_operator.constraints}
    return {
        "raw": space_of_operator.raw_count,
        "legal": legal,
        **({} if legal else {"why_empty": str(space_of_operator.why_empty())}),
        "parameters": [
            {"name": p.name, "kind": p.kind, "values": list(p.values), "doc": p.doc}
            for p in space_of_operator.parameters
        ],
        "rules": [
            {
                "name": r.rule,
                "kind": "valid" if r.rule in valid else "pruning",
                "rejects": r.count,
                "doc": docs[r.rule],
            }
            for r in rejects
        ],
    }


def _show_space(console: Console, space_of_operator: Space, legal: int, rejects: Sequence[Rejection]) -> None:
    share = formatting.percent(legal, space_of_operator.raw_count)
    if legal and space_of_operator.raw_count >= 10 * legal:
        share = f"1 in {formatting.count(round(space_of_operator.raw_count / legal))}"
    combinations = formatting.count(space_of_operator.raw_count)
    console.print(f"{formatting.count(legal)} legal schedules, {share} of {combinations} combinations")
    console.print()
    show(console, _parameter_table(space_of_operator.parameters))
    console.print()
    if not legal:
        console.print(str(space_of_operator.why_empty()), markup=False)
        return
    valid = {rule.name for rule in space_of_operator.constraints}
    rules = formatting.table("rule", "kind", "rejects", "share", right=("rejects", "share"))
    for r in sorted(rejects, key=lambda r: -r.count):
        if r.count:
            kind = "valid" if r.rule in valid else "pruning"
            rules.add_row(r.rule, kind, formatting.count(r.count), formatting.percent(r.count, r.raw))
    show(console, rules)
    console.print(_LEGEND, style="dim")
    idle = [r.rule for r in rejects if not r.count]
    if idle:
        console.print(f"rules that reject nothing: {', '.join(idle)}", style="dim")


def _draw(templates: TemplateSet, problem: Problem, schedule: Schedule, device: Device, path: Path) -> None:
    """Draw layouts to a file.

    Raises:
        InputError: There is nothing to draw, or the file cannot be written.
    """
    from autosched.reporting.pictures import draw

    template = templates.of(schedule)
    drawings = template.drawings(problem, template.space(problem, device).config(schedule), device)
    if not drawings:
        raise InputError(f"{template.name} has no layouts to draw: leave --picture out")
    try:
        draw(drawings, replaceable(path))
    except ValueError as error:
        raise InputError(f"--picture: {error}") from error
    except OSError as error:
        raise InputError(f"--picture cannot write {path} ({error.strerror}): name another file") from error
    stderr_console().print(f"drew {path}")


def _check_pictures(problem: Problem, folder: Path) -> None:
    """Check that ``_draw_program`` can succeed, before the slow counting of schedules starts.

    Raises:
        InputError: The problem is not a tile program, or the folder cannot be written.
    """
    check_picture("--pictures", folder / "values.svg")
    if not is_program_problem(problem):
        raise InputError("--pictures draws the values of a tile program: give --program FILE")
    existing = next(at for at in (folder, *folder.absolute().parents) if os.path.exists(at))
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise InputError(f"--pictures cannot write to {folder}: name another folder")


def _draw_program(problem: Problem, schedule: Schedule, folder: Path) -> None:
    """Draw the values of a tile program into a folder.

    Raises:
        InputError: The folder cannot be written.
    """
    from autosched.reporting.tile_program_pictures import draw_program

    assert is_program_problem(problem)
    try:
        drawn = draw_program(problem, schedule, folder)
    except OSError as error:
        raise InputError(f"--pictures cannot write to {folder} ({error.strerror}): name another folder") from error
    stderr_console().print(f"drew {len(drawn)} pictures in {folder}", markup=False)


def _parameter_table(parameters: Sequence[Parameter]) -> Any:
    table = formatting.table("parameter", "choices", "values", right=("choices",), fold=("values",))
    for p in parameters:
        shown = " ".join(str(v) for v in p.values[:_SHOWN_VALUES])
        table.add_row(p.name, str(len(p.values)), shown + (" ..." if len(p.values) > _SHOWN_VALUES else ""))
    return table


def _explain(space_of_operator: Space, schedule: Schedule, *, as_json: bool) -> int:
    violations = space_of_operator.explain(schedule)
    if as_json:
        broken = [{"rule": v.rule, "reason": v.reason} for v in violations]
        print_json(
            {
                "template": schedule.template,
                "schedule": schedule.to_json(),
                "legal": not violations,
                "violations": broken,
            }
        )
    elif violations:
        table = formatting.table("broken rule", "why", fold=("why",))
        for v in violations:
            table.add_row(v.rule, v.reason)
        show(stdout_console(), table)
    else:
        answer("legal: no rule rejects this schedule")
    return ExitStatus.NO if violations else 0
