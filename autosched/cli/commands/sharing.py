"""``autosched export``, ``import``, ``merge`` and ``db``: databases that are shared and kept in order.

Each command imports the store itself: with sqlalchemy, which other commands need not wait for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autosched.cli.commands.export_kernels import export_kernels
from autosched.cli.options.kernel import Programs, register_stored
from autosched.cli.terminal.errors import NO, InputError, bad_input, shortened
from autosched.cli.terminal.output import print_json, say, show, stdout_console
from autosched.dispatch.validity import refuse_invalid
from autosched.reporting import formatting
from measurements.files.text import one_line, without_password
from measurements.records.record import Record
from search_spaces.catalogue import is_operator

if TYPE_CHECKING:
    from autosched.triton.configs.file_names import Format
    from measurements.store.merge import Merged, MergedEntry
    from measurements.store.store import ProblemSummary, Store

Db = Annotated[str, typer.Option("--db", metavar="DB", help="Database file or SQLAlchemy URL. (required)")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def export(
    *,
    db: Db = "",
    out: Annotated[str, typer.Option("--out", metavar="FOLDER", help="Where JSON files go.")] = "",
    operator: Annotated[str | None, typer.Option("--operator", metavar="NAME", help="Only this operator.")] = None,
    device: Annotated[str | None, typer.Option("--device", metavar="D", help="Only this device.")] = None,
    format: Annotated[
        str | None,
        typer.Option("--format", metavar="NAME", help="vllm or sglang: layers that tune --moe or import have kept."),
    ] = None,
    cubin: Annotated[
        str,
        typer.Option("--cubin", metavar="FOLDER", help="Where compiled kernels go, with what launches them."),
    ] = "",
    ptx: Annotated[
        bool, typer.Option("--ptx", help="With --cubin: PTX beside each cubin, for newer GPUs and the emulator.")
    ] = False,
    calls: Annotated[
        str, typer.Option("--from", metavar="CSV", help="With --cubin and --device: the problems of recorded calls.")
    ] = "",
    kernel: Annotated[
        list[str] | None,
        typer.Option("--kernel", metavar="FILE", help="With --cubin: a kernel file whose kernel the database holds."),
    ] = None,
    program: Annotated[
        list[str] | None,
        typer.Option("--program", metavar="FILE[:NAME]", help="With --cubin: a tile program that the database holds."),
    ] = None,
    json: Json = False,
) -> int:
    """Export the best schedules as JSON files for a repository, or as kernels that programs launch without autosched.

    With --out there is one file for each device and operator; the same database gives the same bytes. With --cubin
    there are cubins, a manifest, a C++ header, a C interface and a Python loader. Exit status 1 if there is nothing to
    export.
    """
    from measurements.store.export import ExportError, write
    from measurements.store.store import Store

    _needs(db, "--db", "export --db best.db --out configs")
    if bool(out) == bool(cubin):
        raise InputError("export needs --out FOLDER for JSON files, or --cubin FOLDER for kernels")
    if cubin and format is not None:
        raise InputError("--format is for --out FOLDER")
    if cubin:
        return export_kernels(db, cubin, operator, device, ptx, calls, kernel or (), program or (), json)
    if ptx or calls or kernel or program:
        raise InputError("--ptx, --from, --kernel and --program are for --cubin FOLDER")
    try:
        if format is not None:
            made = _export_configs(Store.open(db, create=False), Path(out), format, device)
        else:
            made = write(Store.open(db, create=False), out, operator, device)
    except ExportError as error:
        raise InputError(str(error)) from error
    if json:
        print_json({"files": [str(path) for path in made]})
    else:
        for path in made:
            print(_shown(path))
    if not made:
        say(f"{without_password(db)} holds no schedule that works for this: nothing is exported")
        return NO
    return 0


def import_(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Export files, or folders of them.")],
    *,
    db: Db = "",
    format: Annotated[
        str | None,
        typer.Option("--format", metavar="NAME", help="vllm or sglang: FILEs are their tuned configurations."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="FILE", help="With --format: config.json of the model, for want of a sidecar."),
    ] = None,
    json: Json = False,
) -> int:
    """Take the schedules of export files into a database.

    The rules are those of merge. Configurations of vLLM and SGLang have no times: unless a sidecar has one, they get
    the time model's, which is ESTIMATED. Hidden size and top-k are the sidecar's, else those of --model.
    """
    from measurements.store.export import ExportError, read
    from measurements.store.store import Store

    _needs(db, "--db", "import configs --db best.db")
    if format is not None:
        return _import_configs(files, db, format, model, json)
    paths = [path for given in files for path in _expanded(Path(given))]
    try:
        sources = [read([path]) for path in dict.fromkeys(paths)]  # each by itself: two may have one entry
        for source in sources:
            _refuse_invalid_best(source)
    except ExportError as error:
        raise InputError(str(error)) from error
    with Store.open(db) as target:
        return _report(_merged(sources, target), target.name, json)


def _format(text: str) -> Format:
    from autosched.triton.configs.file_names import FORMATS

    if text not in FORMATS:
        raise InputError(f"--format {text[:60]} is not known: write {' or '.join(FORMATS)}")
    return "vllm" if text == "vllm" else "sglang"


def _import_configs(files: Sequence[str], db: str, format: str, model: str | None, json: bool) -> int:
    from autosched.triton.configs.files import read_folder
    from autosched.triton.configs.layer import layer_of_model
    from autosched.triton.configs.tuning.records import records_of
    from autosched.triton.configs.tuning.sidecar import read_tuned
    from measurements.store.store import Store

    with bad_input():
        layer = layer_of_model(Path(model)) if model is not None else None
        found = [file for given in files for file in read_folder(Path(given), _format(format))[0]]
        tuned = [read_tuned(file, layer) for file in found]
        records = [record for one in tuned for record in records_of(one)]
    with Store.open(db) as store:
        store.extend(records)
    if json:
        print_json({"files": [str(file.path) for file in found], "records": len(records)})
    else:
        print(f"{formatting.plural(len(records), 'configuration')} of {formatting.plural(len(found), 'file')}")
    return 0


def _export_configs(store: Store, folder: Path, format: str, device: str | None) -> list[Path]:
    from autosched.triton.configs.tuning.records import tuned_layers
    from autosched.triton.configs.tuning.sidecar import write_tuned

    form = _format(format)
    with bad_input():
        return [write_tuned(folder, form, tuned) for tuned in tuned_layers(store, device)]


def merge(
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE", help="Databases, which stay as they are.")],
    *,
    into: Annotated[
        str, typer.Option("--into", metavar="DB", help="Database that takes what they know better. (required)")
    ] = "",
    json: Json = False,
) -> int:
    """Take what other databases know better into one.

    What only one has is taken. Where both have a best schedule, measured times decide only if both schedules were
    timed in turns; else it is unclear, and what is there stays. Measured times go before replayed before estimated
    ones. Thresholds for CI that differ are reported, and those that are there stay.
    """
    from measurements.store.store import Store

    _needs(into, "--into", "merge --into best.db theirs.db")
    opened = [Store.open(source, create=False) for source in sources]
    with Store.open(into) as target:
        return _report(_merged(opened, target), target.name, json)


def _merged(sources: Sequence[Store], target: Store) -> Merged:
    """Return what came of all sources, one after the other."""
    from measurements.store.merge import Merged
    from measurements.store.merge import merge as merge_into

    done = [merge_into(source, target, partial(_doubt, source)) for source in sources]
    return Merged(
        tuple(entry for one in done for entry in one.entries), tuple(c for one in done for c in one.conflicts)
    )


def stats(*, db: Db = "", json: Json = False) -> int:
    """Show what a database holds."""
    from measurements.store import maintenance
    from measurements.store.store import Store

    _needs(db, "--db", "db stats --db best.db")
    store = Store.open(db, create=False)
    found = maintenance.stats(store)
    if json:
        print_json({"database": store.name, **asdict(found)})
        return 0
    console = stdout_console()
    size = "on a server" if found.size is None else formatting.size(found.size)
    rows = [("database", f"{store.name}, {size}, schema {found.schema}")]
    rows += [("trials", f"{formatting.count(found.trials)} of {formatting.plural(found.problems, 'problem')}")]
    rows += [("statuses", formatting.reasons(found.statuses) or "none")]
    show(console, formatting.facts(rows))
    entries: Counter[tuple[str, str, str]] = Counter()
    trials: Counter[tuple[str, str, str]] = Counter()
    for s in found.entries:
        key = (s.operator, s.device, s.provenance.value)
        entries[key] += 1
        trials[key] += s.trials
    if entries:
        console.print()
        made = formatting.table(
            "operator", "device", "provenance", "problems", "schedules", right=("problems", "schedules")
        )
        for key in sorted(entries):
            made.add_row(*key, formatting.count(entries[key]), formatting.count(trials[key]))
        show(console, made)
    return 0


def gc(
    *,
    db: Db = "",
    keep: Annotated[
        int | None,
        typer.Option("--keep", metavar="N", help="Also remove all but the N fastest schedules of an entry."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    json: Json = False,
) -> int:
    """Remove trials that no look-up reads.

    Those are the trials of kernels that their schedule no longer has. Their room is given back to the disk. The best of
    every problem stays the best, and wrong results stay known.
    """
    from measurements.store import maintenance
    from measurements.store.store import Store

    _needs(db, "--db", "db gc --db best.db --dry-run")
    with bad_input(), Store.open(db, create=False) as store:
        done = maintenance.collect(store, keep, dry_run=dry_run)
    if json:
        print_json(
            {"database": without_password(db), "removed": dict(done.removed), "left": done.left, "dry_run": dry_run}
        )
        return 0
    verb = "would be removed" if dry_run else "removed"
    print(f"{formatting.plural(sum(done.removed.values()), 'trial')} {verb}, {formatting.count(done.left)} left")
    for why, number in sorted(done.removed.items()):
        print(f"  {formatting.count(number)} {why}")
    return 0


def migrate(*, db: Db = "", json: Json = False) -> int:
    """Bring a database of an older autosched up to date.

    Every command does so that opens one.
    """
    from measurements.store.schema import SCHEMA_VERSION
    from measurements.store.store import Store

    _needs(db, "--db", "db migrate --db best.db")
    with Store.open(db, create=False) as store:
        if json:
            print_json({"database": store.name, "schema": SCHEMA_VERSION, "migrated_from": store.migrated_from})
        elif store.migrated_from is None:
            print(f"the database has schema {SCHEMA_VERSION}, which is the newest")
        else:
            print(f"the database had schema {store.migrated_from}, and now has {SCHEMA_VERSION}")
    return 0


def check_db(*, db: Db = "", program: Programs = None, json: Json = False) -> int:
    """Is a database whole?

    Whether all can be read, what is kept of its entries is what its trials say, and the best schedules are valid today;
    of kernels that are not known here 'check --static --kernel FILE' says that. Exit status 1 if anything is wrong.
    """
    from measurements.store import maintenance
    from measurements.store.store import Store

    _needs(db, "--db", "db check --db best.db")
    register_stored(program)
    store = Store.open(db, create=False)
    found = maintenance.check(store)
    unknown: Counter[str] = Counter()
    if not found:
        for summary in store.problems():
            record = store.best_of(summary)
            if record is None:
                continue
            unknown[summary.operator] += not is_operator(summary.operator)
            why = _doubt(store, summary, record)
            if why:
                found.append(f"trial {record.id} is the best of its problem and cannot be used: {why}")
    unknown = +unknown
    if json:
        print_json({"database": store.name, "wrong": found, "not_judged": unknown})
    else:
        for line in found:
            stdout_console().print(line, soft_wrap=True)
        if not found:
            print("nothing is wrong")
        for operator, number in sorted(unknown.items()):
            schedules = formatting.plural(number, "best schedule")
            print(f"not judged: {schedules} of {one_line(shortened(operator))}, whose kernels are not known here")
    return NO if found else 0


def _doubt(store: Store, summary: ProblemSummary, record: Record) -> str:
    """Why a record cannot be used; "" also for what nobody can judge here."""
    if not is_operator(summary.operator):
        return ""
    try:
        refuse_invalid(store.problem(summary), record)
    except ValueError as error:
        return str(error)
    return ""


def _refuse_invalid_best(source: Store) -> None:
    from measurements.store.export import ExportError

    for summary in source.problems():
        record = source.best_of(summary)
        why = "" if record is None else _doubt(source, summary, record)
        if why:
            raise ExportError(f"the best {summary.operator} on {summary.device} cannot be used: {why}")


def _expanded(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(path.glob("*.json"))
        if not found:
            raise InputError(f"the folder {path} holds no export (*.json): name one that does")
        return found
    if not path.is_file():
        raise InputError(f"there is no file {path}: check the path")
    return [path]


def _needs(value: str, option: str, example: str) -> None:
    if not value:
        raise InputError(f"{example.partition(' --')[0]} needs {option}: autosched {example}")


def _shown(path: Path) -> str:
    return ascii(str(path))[1:-1] if not str(path).isprintable() else str(path)


def _report(merged: Merged, name: str, json: bool) -> int:
    if json:
        print_json(
            {
                "database": name,
                "entries": [_entry_json(e) for e in merged.entries],
                "conflicts": [asdict(c) for c in merged.conflicts],
            }
        )
        return 0
    counts = Counter(entry.verdict.value for entry in merged.entries)
    taken = sum(entry.taken for entry in merged.entries)
    print(f"{formatting.plural(taken, 'trial')} taken into {name}: {formatting.reasons(counts) or 'nothing there'}")
    console = stdout_console()
    for entry in merged.entries:
        if entry.why:
            where = f"{entry.summary.problem_key} on {entry.summary.device} ({entry.summary.provenance})"
            console.print(f"{entry.verdict.value}: {where}: {entry.why}", soft_wrap=True)
    for conflict in merged.conflicts:
        where = f"{conflict.problem_key} on {conflict.device}"
        console.print(f"conflict: {where}: the thresholds for CI differ, those that are there stay", soft_wrap=True)
    return 0


def _entry_json(entry: MergedEntry) -> dict[str, Any]:
    s = entry.summary
    return {
        "problem": s.problem_key,
        "operator": s.operator,
        "device": s.device,
        "provenance": s.provenance.value,
        "verdict": entry.verdict.value,
        "why": entry.why,
        "taken": entry.taken,
    }
