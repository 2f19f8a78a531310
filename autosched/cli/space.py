"""``autosched space``: how many schedules there are, what they decide, and what each rule removes.

``--json``: ``problem``, ``device``, ``raw`` and ``legal`` (counts), ``seconds`` (that counting took), ``parameters``
(``name``, ``kind``, ``values``, ``doc``), ``rules`` (``name``, ``rejects``: how many of the raw combinations it refuses
alone, ``doc``), ``seed``, and ``samples``, a list of schedules. With ``--explain``: ``schedule``, ``legal`` and
``violations`` (``rule``, ``reason``). ``--picture`` draws layouts to a file beside all that.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from autosched import formatting
from autosched.cli import schedule_file
from autosched.cli.devices import DEVICE_NOTE, DeviceOption, target
from autosched.cli.errors import MOST_SAMPLES, MOST_SEED, NO, InputError, listed, within
from autosched.cli.output import print_json, show, stderr_console, stdout_console
from autosched.cli.problem_options import problem_from, whole_number
from autosched.cli.schedule_file import KEYS
from search_spaces.catalogue import AnyFamily
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem
from search_spaces.pictures import draw
from search_spaces.spaces.parameters import Parameter
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space

_SHOWN_VALUES = 12  # of one parameter in the table; --json has all
_LEGEND = "refuses alone: how many of all combinations break this rule, whatever the other rules say of them"


def space(
    family: AnyFamily,
    given: Mapping[str, Any],
    *,
    device: DeviceOption = None,
    sample: Annotated[
        int,
        typer.Option(
            "--sample",
            parser=whole_number,
            metavar="N",
            help=f"Legal schedules to draw uniformly, at most {MOST_SAMPLES:,}.",
        ),
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", parser=whole_number, metavar="S", help="Seed of the samples.")] = 0,
    explain: Annotated[
        str | None,
        typer.Option(
            "--explain",
            metavar="FILE",
            help="Say which rules one schedule breaks; exit status 1 if any. FILE (- for stdin) holds an object of its "
            f"parameters, or a JSON document of ours with one schedule under {listed(KEYS, 'or')}.",
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
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    within("--sample", sample, 0, MOST_SAMPLES)
    within("--seed", seed, 0, MOST_SEED)
    problem, where = problem_from(family, given), target(device)
    started = time.perf_counter()
    whole = family.space(problem, where)
    if explain is not None:
        schedule = schedule_file.read(explain, family.name, whole.parameters)
        status = _explain(whole, schedule, as_json=json)
        if picture is not None and status == 0:
            _draw(family, problem, schedule, where, picture)
        return status
    legal, rejects = whole.count(), whole.rejects()
    seconds = time.perf_counter() - started
    samples = whole.sample(sample, seed) if sample else []
    if picture is not None:
        drawn = samples[0] if samples else whole.sample(1, seed)[0]
        _draw(family, problem, drawn, where, picture)
    if json:
        docs = {rule.name: rule.doc for rule in whole.rules}
        print_json(
            {
                "problem": problem.to_json(),
                "device": where.name,
                "raw": whole.raw_count,
                "legal": legal,
                "seconds": seconds,
                "parameters": [
                    {"name": p.name, "kind": p.kind, "values": list(p.values), "doc": p.doc} for p in whole.parameters
                ],
                "rules": [{"name": r.rule, "rejects": r.count, "doc": docs[r.rule]} for r in rejects],
                "seed": seed,
                "samples": [s.to_json() for s in samples],
            }
        )
        return 0
    console = stdout_console()
    console.print(f"{formatting.one_line(problem)} on {where.name}")
    share = f"1 in {formatting.count(round(whole.raw_count / legal))} combinations" if legal else "none"
    facts = [
        ("all combinations", formatting.count(whole.raw_count)),
        ("legal schedules", f"{formatting.count(legal)}, {share}"),
        ("counted in", formatting.duration(seconds)),
    ]
    show(console, formatting.facts(facts))
    console.print()
    show(console, _parameter_table(whole.parameters))
    console.print()
    rules = formatting.table("rule", "refuses alone", "share", right=("refuses alone", "share"))
    for r in sorted(rejects, key=lambda r: -r.count):
        if r.count:
            rules.add_row(r.rule, formatting.count(r.count), formatting.percent(r.count, r.raw))
    show(console, rules)
    console.print(_LEGEND, style="dim")
    idle = [r.rule for r in rejects if not r.count]
    if idle:
        console.print(f"nothing to refuse here: {', '.join(idle)}", style="dim")
    for i, schedule in enumerate(samples):
        console.print()
        console.print(f"sample {i + 1} of {len(samples)}, seed {seed}")
        show(console, formatting.decisions(schedule, console.width))
    return 0


space.__doc__ = f"""Count the legal schedules, and show parameters, rules and samples.

{DEVICE_NOTE}
"""


def _draw(family: AnyFamily, problem: Problem, schedule: Schedule, device: Device, path: Path) -> None:
    """Raises InputError where the family draws nothing, the file cannot be written, or matplotlib is not installed."""
    drawings = family.drawings(problem, schedule, device)
    if not drawings:
        raise InputError(f"--picture: {family.name} has no layouts to draw: leave --picture out")
    if not path.parent.is_dir():  # before matplotlib is loaded, which makes folders of its own
        raise InputError(f"--picture cannot write {path} (there is no such folder): name a file in a folder you own")
    try:
        draw(drawings, path)
    except (ImportError, ValueError) as error:
        raise InputError(f"--picture: {error}") from error
    except OSError as error:
        raise InputError(
            f"--picture cannot write {path} ({error.strerror}): name a file in a folder you own"
        ) from error
    stderr_console().print(f"drew {path}")


def _parameter_table(parameters: Sequence[Parameter]) -> Any:
    made = formatting.table("parameter", "choices", "values", right=("choices",), fold=("values",))
    for p in parameters:
        shown = " ".join(str(v) for v in p.values[:_SHOWN_VALUES])
        made.add_row(p.name, str(len(p.values)), shown + (" ..." if len(p.values) > _SHOWN_VALUES else ""))
    return made


def _explain(whole: Space, schedule: Schedule, *, as_json: bool) -> int:
    violations = whole.explain(schedule)
    if as_json:
        broken = [{"rule": v.rule, "reason": v.reason} for v in violations]
        print_json({"schedule": schedule.to_json(), "legal": not violations, "violations": broken})
    elif violations:
        made = formatting.table("broken rule", "why", fold=("why",))
        for v in violations:
            made.add_row(v.rule, v.reason)
        show(stdout_console(), made)
    else:
        print("legal: no rule refuses this schedule")
    return NO if violations else 0
