"""``autosched tune --moe config.json``: write a configuration file for vLLM or SGLang from a model's config.json.

``--json`` prints ``file``, ``device``, ``kernel``, ``triton``, ``provenance`` and ``entries``. Each entry has ``rows``,
``config``, ``seconds`` and ``verification``. It also has the result of the comparison with the package's default:
``word`` (default, tuned or noise), ``default_seconds``, ``tuned_seconds``, ``ratio``, ``interval`` and
``default_refused`` (why the default cannot be used). For layers of block-scaled types, the command writes the JSON
document of ``expert_products.py``.
"""

from __future__ import annotations

from collections import Counter as Counted
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autosched.cli.commands.tuning import expert_products
from autosched.cli.options.config_files import config_files
from autosched.cli.options.devices import DeviceOption, detected_gpu, target
from autosched.cli.options.problem import whole_number
from autosched.cli.options.search import JsonOption
from autosched.cli.terminal import interrupts
from autosched.cli.terminal.console import show, stderr_console, stdout_console
from autosched.cli.terminal.errors import InputError, bad_input, within
from autosched.cli.terminal.output import print_json, say
from autosched.cli.terminal.progress import Counter
from autosched.reporting import formatting
from autosched.reporting.exit_status import ExitStatus

if TYPE_CHECKING:
    from autosched.regression.config_files import TunedConfigs

FormatOption = Annotated[str, typer.Option("--format", metavar="NAME", help="vllm or sglang.")]


def tune_moe(
    moe: Annotated[str, typer.Option("--moe", metavar="FILE", help="config.json of a mixture-of-experts model.")],
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Folder to write the file to.")] = "",
    device: DeviceOption = None,
    format: FormatOption = "vllm",
    ranks: Annotated[
        int,
        typer.Option(
            "--ranks", parser=whole_number, metavar="N", help="Number of GPUs among which each expert is divided."
        ),
    ] = 1,
    dtype: Annotated[
        str,
        typer.Option(
            "--dtype", metavar="TYPE", help="Type of the layer, such as fp8_w8a8 or nvfp4 (default: the model's)."
        ),
    ] = "",
    rows: Annotated[
        list[int] | None,
        typer.Option(
            "--rows", parser=whole_number, metavar="M", help="A batch size; may be repeated (default: 18 sizes)."
        ),
    ] = None,
    candidates: Annotated[
        int,
        typer.Option(
            "--candidates",
            parser=whole_number,
            metavar="N",
            help="Number of candidates for each batch size, ranked by the model.",
        ),
    ] = 4,
    measure: Annotated[
        bool,
        typer.Option("--measure", help="Time these candidates on the GPU of this machine and keep the fastest."),
    ] = False,
    db: Annotated[
        str | None, typer.Option("--db", metavar="DB", help="Also store the trials in this database.")
    ] = None,
    json: JsonOption = False,
) -> int:
    """Write the configurations of a layer for every batch size, and a sidecar file that describes their origin.

    The time model ranks the search space of vLLM's own tuner. Triton compiles the best candidates for the device, and
    the emulator verifies them. The candidates are ranked again by their compiled code, and the fastest is written.
    Without --measure, no GPU is used and times are ESTIMATED. A batch size keeps the package's default if the gain is
    within the noise. For NVFP4, MXFP4 and MXFP8 layers, no server reads such files. Instead, --db without --out stores
    the best schedules of an expert's two products, for calls of autosched.matmul.
    """
    if not out and db is None:
        raise InputError("tune --moe needs --out: autosched tune --moe config.json --device h200 --out configs")
    files = config_files(format)
    within("--candidates", candidates, 1, 64)
    for m in rows or ():
        within("--rows", m, 1, 2**20)
    row = target(device)
    gpu = detected_gpu() if measure else None
    if measure and (gpu is None or gpu.name != row.name):
        gpu_text = "no GPU responds" if gpu is None else f"this machine's GPU is {gpu.name}"
        raise InputError(f"--measure needs the GPU that the file is for ({row.name}), but {gpu_text}: omit --measure")
    sizes = sorted(set(rows or files.batch_sizes))
    if not out:
        assert db is not None
        with bad_input():
            products = files.expert_products(Path(moe), rows=sizes, ranks=ranks, dtype=dtype)
        if not products:
            raise InputError(
                "tune --moe needs --out for this type of layer, because servers read its tiles from a file: add "
                "--out configs"
            )
        backend = "cuda" if measure else "estimate"
        return expert_products.tune_layer(products, row, db, trials=candidates, backend=backend, json=json)
    with bad_input():
        try:
            with interrupts.raised(), Counter(stderr_console(), "batch sizes", len(sizes)) as progress:
                tuned = files.tune(
                    Path(moe),
                    row,
                    rows=sizes,
                    ranks=ranks,
                    dtype=dtype,
                    candidates=candidates,
                    measure=measure,
                    on_batch_size=progress.advance,
                )
        except KeyboardInterrupt:
            say("stopped; no file was written")
            return ExitStatus.STOPPED
        if db is not None:
            from measurements.store.store import Store

            with Store.open(db) as store:
                store.extend(list(files.trials(tuned)))
        path = files.write(Path(out), tuned)
    if json:
        print_json({"file": str(path), **tuned.document()})
        return 0
    _show(tuned)
    stdout_console().print(str(path), markup=False, highlight=False, soft_wrap=True)
    return 0


def _show(tuned: TunedConfigs) -> None:
    console = stdout_console()
    document = tuned.document()
    times = "measured" if document["provenance"] == "measured" else "ESTIMATED"
    console.print(f"{tuned.summary}; times are {times}", soft_wrap=True)
    console.print(f"kernel: {document['kernel']}; Triton {document['triton']}", markup=False, soft_wrap=True)
    table = formatting.table(
        *("rows", "time", "default", "gain", "default / tuned / noise", "verification", "configuration"),
        right=("rows", "time", "default", "gain"),
        fold=("configuration",),
    )
    for entry in document["entries"]:
        text = " ".join(f"{name}={value}" for name, value in entry["config"].items())
        verification = str(entry["verification"].get("status", ""))
        numbers = (_time(entry["seconds"]), _time(entry["default_seconds"]), _ratio(entry["ratio"]))
        table.add_row(str(entry["rows"]), *numbers, entry["word"] or "", verification, text)
    show(console, table)
    for entry in document["entries"]:
        if entry["default_refused"] is not None:
            line = f"{entry['rows']} rows: the default cannot be used: {entry['default_refused']}"
            console.print(line, markup=False, soft_wrap=True)
    counts = Counted(entry["word"] for entry in document["entries"])
    unchanged = counts["default"] + counts["noise"]
    if unchanged:
        console.print(
            f"{unchanged} of {len(document['entries'])} batch sizes keep the default: no gain above the noise"
        )


def _time(seconds: float | None) -> str:
    return "" if seconds is None else formatting.time(seconds)


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"x{ratio:.2f}"
