"""``autosched export``, ``import`` and ``merge``: share databases.

The store is imported within the functions, so that other commands do not wait for sqlalchemy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autosched.cli.commands.database import Db, Json, needs, unusable_reason
from autosched.cli.commands.export_kernels import export_kernels
from autosched.cli.options.config_files import config_files
from autosched.cli.options.sources import Kernels, Programs, TritonKernels, register_stored
from autosched.cli.terminal.console import stdout_console
from autosched.cli.terminal.errors import InputError, bad_input
from autosched.cli.terminal.output import answer, print_json, say
from autosched.reporting import formatting
from autosched.reporting.exit_status import ExitStatus
from measurements.files.text import without_password

if TYPE_CHECKING:
    from autosched.regression.config_files import TunedConfigs
    from measurements.store.merge import Merged, MergedEntry
    from measurements.store.store import Store


def export(
    *,
    db: Db = "",
    out: Annotated[str, typer.Option("--out", metavar="FOLDER", help="Folder for JSON files.")] = "",
    operator: Annotated[str | None, typer.Option("--operator", metavar="NAME", help="Only this operator.")] = None,
    device: Annotated[str | None, typer.Option("--device", metavar="D", help="Only this device.")] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="vllm or sglang: write configuration files in the format of this package, "
            "for layers stored by tune --moe or import.",
        ),
    ] = None,
    cubin: Annotated[
        str,
        typer.Option("--cubin", metavar="FOLDER", help="Folder for compiled kernels and the code that launches them."),
    ] = "",
    ptx: Annotated[
        bool, typer.Option("--ptx", help="With --cubin: also write PTX, for newer GPUs and the emulator.")
    ] = False,
    calls: Annotated[
        str,
        typer.Option("--from", metavar="CSV", help="With --cubin and --device: export the problems of recorded calls."),
    ] = "",
    kernel: Kernels = None,
    program: Programs = None,
    triton: TritonKernels = None,
    json: Json = False,
) -> int:
    """Export the best schedules as JSON files for a repository, or as kernels that programs launch without autosched.

    --out writes one file for each device and operator; the same database gives the same bytes. --cubin writes cubins, a
    manifest, a C++ header, a C interface and a Python loader. Exit status 1 if there is nothing to export.
    """
    from measurements.store.export import ExportError, write
    from measurements.store.store import Store

    needs(db, "--db", "export --db best.db --out configs")
    register_stored(kernel, program, triton, db)
    if bool(out) == bool(cubin):
        raise InputError("export needs --out FOLDER for JSON files, or --cubin FOLDER for kernels")
    if cubin and format is not None:
        raise InputError("--format is for --out FOLDER")
    if cubin:
        return export_kernels(db, cubin, operator, device, ptx, calls, json)
    if ptx or calls:
        raise InputError("--ptx and --from are for --cubin FOLDER")
    try:
        if format is not None:
            configs = _export_configs(Store.open(db, create=False), Path(out), format, device)
            paths = [path for path, _ in configs]
        else:
            configs, paths = [], write(Store.open(db, create=False), out, operator, device)
    except ExportError as error:
        raise InputError(str(error)) from error
    if json:
        layers = [{"file": str(path), **tuned.document()} for path, tuned in configs]
        print_json({"files": [str(path) for path in paths], **({"layers": layers} if format is not None else {})})
    else:
        for path in paths:
            answer(_shown(path))
        for path, tuned in configs:
            counts = Counter(entry["word"] or "not compared" for entry in tuned.document()["entries"])
            say(f"{_shown(path)}: against the default: {formatting.reasons(counts)}")
    if not paths:
        say(f"{without_password(db)} has no matching schedule that works: nothing is exported")
        return ExitStatus.NO
    return 0


def import_(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE", help="Files that 'autosched export' wrote, or folders with such files."),
    ],
    *,
    db: Db = "",
    format: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="NAME", help="vllm or sglang: FILEs are tuned configurations of this package."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="FILE", help="With --format: config.json of the model, if a file has no sidecar."
        ),
    ] = None,
    kernel: Kernels = None,
    program: Programs = None,
    triton: TritonKernels = None,
    json: Json = False,
) -> int:
    """Import the schedules of export files into a database.

    Schedules are combined by the rules of 'autosched merge'. Configurations of vLLM and SGLang have no times: unless a
    sidecar file gives a time, the time model's estimate is stored and marked ESTIMATED. Hidden size and top-k are read
    from the sidecar, or else from --model.
    """
    from measurements.store.export import ExportError, read
    from measurements.store.store import Store

    needs(db, "--db", "import configs --db best.db")
    register_stored(kernel, program, triton, None)
    if format is not None:
        return _import_configs(files, db, format, model, json)
    paths = [path for pattern in files for path in _expanded(Path(pattern))]
    try:
        sources = [
            read([path]) for path in dict.fromkeys(paths)
        ]  # merge one file at a time, because two files may contain the same entry
        for source in sources:
            _refuse_invalid_best(source)
    except ExportError as error:
        raise InputError(str(error)) from error
    with Store.open(db) as target:
        return _report(_merged(sources, target), target.name, json)


def _import_configs(files: Sequence[str], db: str, format: str, model: str | None, json: bool) -> int:
    from measurements.store.store import Store

    configs = config_files(format)
    with bad_input():
        tuned = configs.read(map(Path, files), None if model is None else Path(model))
        trials = [trial for _, one in tuned for trial in configs.trials(one)]
    with Store.open(db) as store:
        store.extend(trials)
    if json:
        print_json({"files": [str(path) for path, _ in tuned], "trials": len(trials)})
    else:
        answer(f"{formatting.plural(len(trials), 'configuration')} of {formatting.plural(len(tuned), 'file')}")
    return 0


def _export_configs(store: Store, folder: Path, format: str, device: str | None) -> list[tuple[Path, TunedConfigs]]:
    configs = config_files(format)
    with bad_input():
        return [(configs.write(folder, tuned), tuned) for tuned in configs.stored(store, device)]


def merge(
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE", help="Databases to read; they are not changed.")],
    *,
    into: Annotated[str, typer.Option("--into", metavar="DB", help="Database to merge into. (required)")] = "",
    kernel: Kernels = None,
    program: Programs = None,
    triton: TritonKernels = None,
    json: Json = False,
) -> int:
    """Merge databases, keeping the best schedule per problem.

    Entries that only one database has are copied. If source and target both have a best schedule for a problem,
    measured times decide only if the two schedules were timed alternately. Otherwise the target keeps its own schedule.
    Measured times take precedence over replayed times, and replayed over estimated times. If thresholds for CI differ,
    the difference is reported and the target's thresholds are kept.
    """
    from measurements.store.store import Store

    needs(into, "--into", "merge --into best.db theirs.db")
    register_stored(kernel, program, triton, sources[0])
    opened = [Store.open(source, create=False) for source in sources]
    with Store.open(into) as target:
        return _report(_merged(opened, target), target.name, json)


def _merged(sources: Sequence[Store], target: Store) -> Merged:
    """Merge the sources one after another, and return the combined result."""
    from measurements.store.merge import Merged
    from measurements.store.merge import merge as merge_into

    done = [merge_into(source, target, partial(unusable_reason, source)) for source in sources]
    return Merged(
        tuple(entry for one in done for entry in one.entries), tuple(c for one in done for c in one.conflicts)
    )


def _refuse_invalid_best(source: Store) -> None:
    from measurements.store.export import ExportError

    for summary in source.problems():
        trial = source.best_of(summary)
        why = "" if trial is None else unusable_reason(source, summary, trial)
        if why:
            raise ExportError(f"the best {summary.operator} on {summary.device} cannot be used: {why}")


def _expanded(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(path.glob("*.json"))
        if not files:
            raise InputError(f"the folder {path} contains no export (*.json): name another one")
        return files
    if not path.exists():
        raise InputError(f"{path} does not exist: check the path")
    return [path]


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
    imported = sum(entry.taken for entry in merged.entries)
    answer(f"{formatting.plural(imported, 'trial')} added to {name}: {formatting.reasons(counts) or 'no entries'}")
    console = stdout_console()
    for entry in merged.entries:
        if entry.why:
            where = f"{entry.summary.problem_key} on {entry.summary.device} ({entry.summary.provenance})"
            console.print(f"{entry.verdict.value}: {where}: {entry.why}", soft_wrap=True)
    for conflict in merged.conflicts:
        where = f"{conflict.problem_key} on {conflict.device}"
        console.print(f"conflict: {where}: the thresholds for CI differ; the target's are kept", soft_wrap=True)
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
