"""``autosched replay``: measure how fast a sampler finds the best configuration of a recording.

``--json`` prints ``file``, ``kernel``, ``device``, ``configurations``, ``valid``, ``best_seconds``, ``notes``, and
``samplers``. Each entry of ``samplers`` has:

- ``sampler``, ``budget`` and ``seconds_per_proposal``
- ``evaluations_to``: maps each quality to the median number of evaluations to reach this quality, or to null if at
  least half of the searches never reached it
- ``quality_after``: maps numbers of evaluations to the lower quartile, median and upper quartile of the quality
- ``searches``: ``seed`` of each search, and its ``quality`` after each evaluation

With ``--to-t4``, ``--json`` only prints ``t4``, a list of ``file`` and ``configurations``.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from autosched.cli.options.problem import whole_number
from autosched.cli.terminal.console import show, stdout_console
from autosched.cli.terminal.errors import MOST_SEED, InputError, bad_input, within
from autosched.cli.terminal.output import answer, print_json
from autosched.cli.terminal.output_files import check_outputs, check_picture, replaceable
from autosched.replay import search
from autosched.replay.search import Searches
from autosched.reporting import formatting
from cost_models.estimates import Estimates
from measurements.tables.table import Table

QUALITIES = (0.9, 0.95, 0.99)
BUDGETS = (25, 50, 100, 200, 400, 800)
_MOST_BUDGET = 100_000
_MOST_REPEATS = 1_000


def replay(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A Kernel Tuner cache, results in T4 format or a recording, optionally compressed with gzip.",
        ),
    ],
    sampler: Annotated[
        list[str] | None, typer.Option("--sampler", metavar="S", help="Sampler; may be repeated.  [default: bayes]")
    ] = None,
    budget: Annotated[int, typer.Option("--budget", metavar="B", help="Number of evaluations per search.")] = 200,
    repeats: Annotated[
        int, typer.Option("--repeats", metavar="R", help="Number of searches, each with its own seed.")
    ] = 20,
    seed: Annotated[
        int, typer.Option("--seed", parser=whole_number, metavar="S", help="Seed of the first search.")
    ] = 0,
    batch: Annotated[
        int, typer.Option("--batch", metavar="N", help="Number of configurations proposed at a time.")
    ] = 1,
    restriction: Annotated[
        list[str] | None,
        typer.Option(
            "--restriction",
            metavar="EXPR",
            help="Search only configurations that satisfy this condition; may be repeated.",
        ),
    ] = None,
    transfer: Annotated[
        str | None,
        typer.Option("--from", metavar="FILE", help="Start from this recording of the same kernel on another GPU."),
    ] = None,
    plot: Annotated[str | None, typer.Option("--plot", metavar="FILE", help="Draw the curves (.svg or .png).")] = None,
    to_t4: Annotated[
        str | None,
        typer.Option(
            "--to-t4",
            metavar="FILE",
            help="Write the recording as T4 JSON, one file for each kernel template, and do not search.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Measure how fast samplers find the best configuration of a recording.

    The recorded times replace measurements. Only the first visit of a configuration counts as an evaluation.
    """
    within("--budget", budget, 1, _MOST_BUDGET)
    within("--repeats", repeats, 1, _MOST_REPEATS)
    within("--batch", batch, 1, _MOST_BUDGET)
    within("--seed", seed, 0, MOST_SEED - repeats)
    names = list(dict.fromkeys(sampler or ["bayes"]))
    from autosched.samplers import check
    from autosched.samplers import sampler as make_sampler
    from measurements.tables.reading import read_table

    with bad_input():
        for name in names:
            check(name, seed)
        check_picture("--plot", plot)
        if plot is not None and to_t4 is not None:
            raise InputError("--to-t4 runs no search, so there is nothing to plot: give either --to-t4 or --plot")
        check_outputs([plot, to_t4], [file, transfer])
        table = read_table(file)
        if restriction:
            table = search.restricted(table, restriction)
        estimates, notes = (None, ()) if transfer is None else _transferred(table, transfer)
        table = replace(table, notes=(*table.notes, *notes))
        t4_files = {} if to_t4 is None else _t4_files(table, to_t4)
        check_outputs(list(t4_files), [file, transfer])
        for path in t4_files:
            replaceable(path)
    if to_t4 is not None:
        return _write_t4(table, t4_files, json)

    def maker(name: str) -> search.Make:
        if name == "bayes" and estimates is not None:
            from autosched.samplers.bayes.sampler import BayesSampler
            from autosched.samplers.bayes.settings import BayesSettings, CandidatePool, GuessTrust

            trust = GuessTrust(
                guessed=CandidatePool.whole
            )  # a recorded time is only looked up, so the sampler can afford to rank the whole space
            return lambda space, number: BayesSampler(
                space, number, estimates=estimates, settings=BayesSettings(trust=trust)
            )
        return lambda space, number: make_sampler(name, space, seed=number, estimates=estimates)

    results = [
        search.searches(
            table,
            name,
            maker(name),
            budget=budget,
            repeats=repeats,
            first_seed=seed,
            batch=batch,
        )
        for name in names
    ]
    if plot is not None:
        from autosched.replay.curves import draw_curves

        draw_curves([(f"{table.kernel} on {table.device}", results)], replaceable(plot))
    if json:
        print_json(_to_json(file, table, results))
    else:
        _show(file, table, results)
        if plot is not None:
            answer(f"\nthe curves are in {plot}")
    return 0


def _transferred(table: Table, path: str) -> tuple[Estimates, tuple[str, ...]]:
    """Return the sampler's initial times, taken from another recording, and notes on that recording.

    Raises:
        InputError: The other recording cannot be used.
    """
    from autosched.samplers.transfer import TransferredTimes
    from measurements.tables.reading import read_table

    try:
        other = read_table(path)
        times = TransferredTimes(table.space(), other.measurements)
    except ValueError as error:
        raise InputError(f"--from {path} cannot be used: {error}") from error
    own_names = {p.name for parameters in table.parameters.values() for p in parameters}
    guess = (
        f"bayes starts from {other.kernel} on {other.device}, using {len(times.shared)} of {len(own_names)} parameters"
    )
    return times.estimates, (guess, *(f"{path}: {note}" for note in other.notes))


def _t4_files(table: Table, path: str) -> dict[str, str]:
    """Map output files to kernel templates: ``path`` for a single template, else one file per template."""
    if len(table.parameters) == 1:
        return dict.fromkeys([path], next(iter(table.parameters)))
    folder = Path(path)
    return {str(folder.with_suffix(f".{name}{folder.suffix}")): name for name in table.parameters}


def _write_t4(table: Table, files: Mapping[str, str], json: bool) -> int:
    from datetime import UTC, datetime
    from json import dumps

    from measurements.files.atomic_write import publish
    from measurements.tables.kernel_tuner import to_t4
    from measurements.tables.table import ESTIMATED

    now = datetime.now(UTC).isoformat()
    provenance = {"provenance": "estimated"} if ESTIMATED in table.notes else {}
    written = []
    for file, template in files.items():
        rows = [(table.configuration(s), m, now) for s, m in table.measurements.items() if s.template == template]
        kernel = table.kernel if len(files) == 1 else template
        document = to_t4(rows, {"kernel": kernel, "device": table.device, **provenance})
        publish(replaceable(file), (dumps(document, indent=1) + "\n").encode())
        written.append({"file": file, "configurations": len(rows)})
        if not json:
            answer(f"{formatting.count(len(rows))} configurations written to {file}")
    if json:
        print_json({"t4": written})
    return 0


def _budgets(budget: int) -> list[int]:
    return [*(n for n in BUDGETS if n < budget), budget]


def _show(file: str, table: Table, results: Sequence[Searches]) -> None:
    console = stdout_console()
    valid = sum(m.ok for m in table.measurements.values())
    facts = [
        ("recording", f"{table.kernel} on {table.device} ({file})"),
        ("configurations", f"{formatting.count(len(table.measurements))}, of which {formatting.count(valid)} ran"),
        ("optimum", formatting.time(table.best_seconds)),
        *(("note", note) for note in table.notes),
    ]
    show(console, formatting.facts(facts))
    console.print()
    to = [f"to {100 * q:.0f}%" for q in QUALITIES]
    after = [f"after {n}" for n in _budgets(results[0].budget)]
    answer = formatting.table("sampler", "searches", *to, *after, "ms/proposal", right=[*to, *after, "ms/proposal"])
    for searches in results:
        medians = [searches.median_evaluations_to(q) for q in QUALITIES]
        answer.add_row(
            searches.sampler,
            str(len(searches.searches)),
            *(f"over {searches.budget}" if m is None else f"{m:g}" for m in medians),
            *(f"{searches.quartiles(n)[1]:.3f}" for n in _budgets(searches.budget)),
            f"{1e3 * statistics.mean(s.seconds_per_proposal for s in searches.searches):.1f}",
        )
    show(console, answer)
    console.print()
    console.print(
        "medians over the searches: evaluations to reach a quality, and quality after a number of evaluations; the "
        "quality is the optimum divided by the best time found"
    )


def _to_json(file: str, table: Table, results: Sequence[Searches]) -> dict[str, Any]:
    return {
        "file": file,
        "kernel": table.kernel,
        "device": table.device,
        "configurations": len(table.measurements),
        "valid": sum(m.ok for m in table.measurements.values()),
        "best_seconds": table.best_seconds,
        "notes": list(table.notes),
        "samplers": [searches_json(searches) for searches in results],
    }


def searches_json(searches: Searches) -> dict[str, Any]:
    """Return the repeated searches of one sampler as JSON values."""
    return {
        "sampler": searches.sampler,
        "budget": searches.budget,
        "evaluations_to": {str(q): searches.median_evaluations_to(q) for q in QUALITIES},
        "quality_after": {str(n): list(searches.quartiles(n)) for n in _budgets(searches.budget)},
        "seconds_per_proposal": statistics.mean(s.seconds_per_proposal for s in searches.searches),
        "searches": [{"seed": s.seed, "quality": list(s.quality)} for s in searches.searches],
    }
