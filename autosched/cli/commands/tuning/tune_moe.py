"""``autosched tune --moe model.json``: a file of configurations for vLLM or SGLang from a model's own config.json.

``--json``: ``file``, ``device``, ``kernel``, ``triton``, ``provenance``, and ``entries``: ``rows``, ``config``,
``seconds``, ``proof``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autosched.cli.options.devices import DeviceOption, gpu_here, target
from autosched.cli.options.problem import whole_number
from autosched.cli.options.search import JsonOption
from autosched.cli.terminal.errors import InputError, bad_input, within
from autosched.cli.terminal.output import print_json, show, stderr_console, stdout_console
from autosched.cli.terminal.progress import Counter
from autosched.reporting import formatting

if TYPE_CHECKING:
    from autosched.integrations.config_files.tuning.sidecar import TunedLayer

FormatOption = Annotated[str, typer.Option("--format", metavar="NAME", help="vllm or sglang.")]


def tune_moe(
    moe: Annotated[str, typer.Option("--moe", metavar="FILE", help="config.json of a mixture-of-experts model.")],
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Where the file goes. (required)")] = "",
    device: DeviceOption = None,
    format: FormatOption = "vllm",
    ranks: Annotated[
        int, typer.Option("--ranks", parser=whole_number, metavar="N", help="GPUs that share each expert.")
    ] = 1,
    dtype: Annotated[
        str, typer.Option("--dtype", metavar="TYPE", help="Such as fp8_w8a8 (default: what the model says).")
    ] = "",
    rows: Annotated[
        list[int] | None,
        typer.Option("--rows", parser=whole_number, metavar="M", help="A batch size; may be repeated (default: 18)."),
    ] = None,
    candidates: Annotated[
        int,
        typer.Option(
            "--candidates", parser=whole_number, metavar="N", help="First choices of the model for each batch size."
        ),
    ] = 4,
    measure: Annotated[
        bool,
        typer.Option("--measure", help="Time these first choices on the GPU of this machine; the fastest is taken."),
    ] = False,
    db: Annotated[str | None, typer.Option("--db", metavar="DB", help="Also keep the records here.")] = None,
    json: JsonOption = False,
) -> int:
    """Write the configurations of a layer for every batch size, and a sidecar that says where they come from.

    The time model ranks the space of vLLM's own tuner. Its first choices are compiled by Triton for the device, proven
    in the emulator, and ranked again by what the compiled kernels do: the fastest is taken. No GPU is asked, and times
    are ESTIMATED, unless --measure is given.
    """
    from autosched.integrations.config_files.file_names import FORMATS

    if not out:
        raise InputError("tune --moe needs --out: autosched tune --moe config.json --device h200 --out configs")
    if format not in FORMATS:
        raise InputError(f"--format {format[:60]} is not known: write {' or '.join(FORMATS)}")
    within("--candidates", candidates, 1, 64)
    for m in rows or ():
        within("--rows", m, 1, 2**20)
    row = target(device)
    here = gpu_here() if measure else None
    if measure and (here is None or here.name != row.name):
        what = "none answers" if here is None else f"that of this machine is {here.name}"
        raise InputError(f"--measure needs the GPU that the file is for, {row.name}, and {what}: leave it out")
    try:
        import torch  # noqa: F401
        import triton  # noqa: F401

        from autosched.integrations.config_files.layer import batch_sizes, layer_of_model
        from autosched.integrations.config_files.tuning.measure import gpu_measure
        from autosched.integrations.config_files.tuning.pool import JudgePool
        from autosched.integrations.config_files.tuning.sidecar import write_tuned
        from autosched.integrations.config_files.tuning.tune_layer import tune_layer
    except ImportError as error:
        raise InputError(f"--moe needs Triton and torch ({error}): pip install 'autosched[triton,torch]'") from None
    form = FORMATS[FORMATS.index(format)]
    with bad_input():
        layer = layer_of_model(Path(moe), ranks=ranks, dtype=dtype)
        sizes = sorted(set(rows)) if rows else list(batch_sizes())
        with JudgePool(form) as pool, Counter(stderr_console(), "batch sizes", len(sizes)) as progress:
            tuned = tune_layer(
                layer,
                row,
                form,
                pool,
                rows=sizes,
                candidates=candidates,
                measure=gpu_measure(form) if measure else None,
                told=progress.advance,
            )
        if db is not None:
            _keep(db, tuned)
        path = write_tuned(Path(out), form, tuned)
    if json:
        print_json(
            {
                "file": str(path),
                "device": row.name,
                "kernel": tuned.kernel,
                "triton": tuned.triton,
                "provenance": "measured" if measure else "estimated",
                "entries": [
                    {"rows": c.rows, "config": dict(c.config), "seconds": c.seconds, "proof": dict(c.proof)}
                    for c in tuned.choices
                ],
            }
        )
        return 0
    _show(tuned)
    stdout_console().print(str(path), markup=False, highlight=False, soft_wrap=True)
    return 0


def _keep(db: str, tuned: TunedLayer) -> None:
    from autosched.integrations.config_files.tuning.records import records_of
    from measurements.store.store import Store

    with Store.open(db) as store:
        store.extend(list(records_of(tuned)))


def _show(tuned: TunedLayer) -> None:
    console = stdout_console()
    console.print(
        f"{tuned.layer.experts} experts of {tuned.layer.intermediate}, hidden {tuned.layer.hidden}, "
        f"{tuned.layer.top_k} a token, on {tuned.device.name}; times are "
        + ("measured" if tuned.choices[0].provenance == "measured" else "ESTIMATED"),
        soft_wrap=True,
    )
    console.print(f"kernel: {tuned.kernel}; Triton {tuned.triton}", markup=False, soft_wrap=True)
    made = formatting.table("rows", "time", "proof", "configuration", right=("rows", "time"), fold=("configuration",))
    for c in tuned.choices:
        text = " ".join(f"{name}={value}" for name, value in c.config)
        made.add_row(str(c.rows), formatting.time(c.seconds or 0.0), str(c.proof.get("status", "")), text)
    show(console, made)
