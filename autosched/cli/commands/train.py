"""``autosched train``: train a cost model on databases and recordings, and report its accuracy.

``--json`` prints ``out`` (the file), ``provenance``, ``rows``, ``left_out`` (maps each reason to a number of rows) and
``operators``. Each entry of ``operators`` has ``operator``, ``rows``, ``devices``, ``templates``, ``noise``,
``held_out`` and ``features``. ``held_out`` lists figures (``cost_models.trees.held_out.HeldOut``); a figure with an
empty ``name`` covers its whole split. Each entry of ``features`` has ``name``, ``gain``, ``moves`` and ``larger``
(``cost_models.trees.explanation.Importance``). Without --explain, ``features`` is empty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from autosched.cli.options.problem import whole_number
from autosched.cli.options.sources import Kernels, Programs, TritonKernels, register_stored
from autosched.cli.terminal.console import show, stderr_console, stdout_console
from autosched.cli.terminal.errors import MOST_SEED, InputError, bad_input, listed, within
from autosched.cli.terminal.output import print_json
from autosched.cli.terminal.output_files import check_outputs, check_picture, replaceable
from autosched.reporting import formatting
from autosched.version import VERSION
from search_spaces.catalogue import problem_from_json

if TYPE_CHECKING:
    from autosched.tuning.training_data import TrainingData
    from cost_models.trees.explanation import Importance
    from cost_models.trees.held_out import HeldOut
    from cost_models.trees.trained_model import OperatorModel, TrainedModel

_SPLITS = {  # for each split: the description of its held-out times, and the heading of the table's first column
    "schedules": ("other schedules of the same problems (a fifth held out at a time)", "problem"),
    "problems": ("problems not used for training (held out on every device)", "problem"),
    "families": ("shape families not used for training", "shape family"),
    "devices": ("devices not used for training", "device"),
}
_SHOWN = 20  # maximum number of features shown
Features = Mapping[str, Sequence["Importance"]]  # features of each operator, the most important first
_FIGURES = ("rows", "spearman", "top-1", "top-5", "top-10", "in 1 dev", "in 2 dev")


def train(
    *,
    db: Annotated[
        list[str] | None,
        typer.Option("--db", metavar="DB", help="Database file or SQLAlchemy URL to learn from; may be repeated."),
    ] = None,
    recording: Annotated[
        list[str] | None,
        typer.Option("--recording", metavar="FILE", help="Recording (.jsonl.gz) to learn from; may be repeated."),
    ] = None,
    kernel: Kernels = None,
    program: Programs = None,
    triton: TritonKernels = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="MODEL", help="The file to write the model to. (required)")
    ] = None,
    update: Annotated[
        str | None,
        typer.Option("--update", metavar="MODEL", help="Also learn from the trials that this model was trained on."),
    ] = None,
    estimated: Annotated[
        bool, typer.Option("--estimated", help="Learn from estimated instead of measured times.")
    ] = False,
    seed: Annotated[
        int, typer.Option("--seed", parser=whole_number, metavar="S", help="Seed for training the trees.")
    ] = 0,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Show the most important features. If --update is given, but none of --db, --recording and --out, "
            "show the features of the existing model without training.",
        ),
    ] = False,
    picture: Annotated[
        str | None,
        typer.Option(
            "--picture", metavar="FILE", help="With --explain: also draw the features to this file (.svg or .png)."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Train a cost model on measured times, and report its accuracy.

    The model predicts the times of untried schedules for 'tune --model'. Its accuracy is measured on held-out problems,
    shapes and devices. Training is deterministic: the same times give the same file. Estimated times are used only with
    --estimated, and the model is then marked as estimated.
    """
    if picture is not None and not explain:
        raise InputError("--picture needs --explain: give both")
    check_picture("--picture", picture)
    check_outputs([out, picture], [*(db or ()), *(recording or ())])
    if out is None and explain and update is not None and not (db or recording):
        _explain_alone(update, picture, json)
        return 0
    if out is None:
        raise InputError("train needs --out: autosched train --db best.db --out model.json")
    if not (db or recording or update):
        raise InputError("no times to train on: give --db, --recording or --update")
    within("--seed", seed, 0, MOST_SEED // 2)
    target = replaceable(out)
    register_stored(kernel, program, triton, db[-1] if db else None)
    from dataclasses import replace

    from autosched.tuning.training_data import TrainingData, gather, usable
    from cost_models.trees.trained_model import TrainedModel
    from cost_models.trees.training import TRAINING
    from cost_models.trees.training import train as learn

    kind = "estimated" if estimated else "measured"
    with bad_input():
        try:
            old = () if update is None else _old(TrainedModel.load(update, any_features=True), kind, update)
            data = gather(db or (), recording or (), kind)
        except OSError as error:
            raise InputError(f"{error.filename} cannot be read ({error.strerror}): name an existing file") from error
        data = usable(TrainingData((*old, *data.observations), data.left_out, data.other_kind_count))
        if not data.observations:
            raise InputError(_nothing(data, kind))
        model = TrainedModel(learn(data.observations, replace(TRAINING, seed=seed)), kind, VERSION)
        features = _explained(model) if explain else {}
    model.save(target)
    if json:
        print_json(_to_json(model, data, out, features))
    else:
        _show(stdout_console(), model, data, out)
        _show_features(stdout_console(), features)
    if picture is not None:
        _draw(features, picture)
    return 0


def _explain_alone(path: str, picture: str | None, json: bool) -> None:
    """Show the most important features of an existing model."""
    from cost_models.trees.trained_model import TrainedModel

    with bad_input():
        try:
            model = TrainedModel.load(path)
        except OSError as error:
            raise InputError(f"{path} cannot be read ({error.strerror}): name another file") from error
        features = _explained(model)
    if json:
        parts = [_operator_json(part, features) for part in model.operators]
        print_json({"out": None, "provenance": model.provenance, "operators": parts})
    else:
        _show_features(stdout_console(), features)
    if picture is not None:
        _draw(features, picture)


def _explained(model: TrainedModel) -> Features:
    """Return the feature importances of each operator.

    Raises:
        ValueError: The model cannot be used in this version.
    """
    from cost_models.trees.explanation import explain

    return {part.operator: explain(part) for part in model.operators}


def _show_features(console: Console, features: Features) -> None:
    """Print the features with the largest effect on predictions."""
    from cost_models.features import meaning

    for operator, importances in features.items():
        console.print(f"{operator}: features by their importance for ranking a problem's schedules")
        table = formatting.table(
            "feature", "moves", "gain", "larger is", "meaning", right=("moves", "gain"), fold=("meaning",)
        )
        deciding = _deciding(importances)
        for i in deciding:
            table.add_row(
                i.name, f"{100 * math.expm1(i.moves):.1f} %", f"{100 * i.gain:.1f} %", i.larger, meaning(i.name)
            )
        show(console, table)
        console.print(f"{formatting.plural(len(importances) - len(deciding), 'less important feature')} not shown")
        console.print()


def _deciding(importances: Sequence[Importance]) -> Sequence[Importance]:
    """Return the features to show: all features with an effect, or the first feature if none has an effect."""
    return [i for i in importances[:_SHOWN] if i.moves > 0 or i.gain > 0] or importances[:1]


def _draw(features: Features, path: str) -> None:
    from autosched.reporting.importance_picture import draw_importance

    draw_importance(
        [(operator, _deciding(importances)) for operator, importances in features.items()], replaceable(path)
    )


def _old(model: TrainedModel, kind: str, path: str) -> tuple[Any, ...]:
    if model.provenance != kind:
        raise InputError(f"{path} was trained on {model.provenance} times, which cannot be mixed with {kind} ones")
    return model.observations


def _nothing(data: TrainingData, kind: str) -> str:
    from autosched.tuning.training_data import UNKNOWN_OPERATOR

    reasons = "; ".join(f"{count} {reason}" for reason, count in sorted(data.left_out.items()))
    message = f"no {kind} times to learn from" + (f" ({reasons})" if reasons else "")
    if data.other_kind_count and kind == "measured":
        return f"{message}: give --estimated to learn from the {data.other_kind_count} estimated times"
    if UNKNOWN_OPERATOR in data.left_out:
        return f"{message}: a model learns from operators of this installation and from tile programs (--program)"
    return f"{message}: tune first"


def _to_json(model: TrainedModel, data: TrainingData, out: str, features: Features) -> dict[str, Any]:
    return {
        "out": out,
        "provenance": model.provenance,
        "rows": data.rows,
        "left_out": dict(data.left_out),
        "operators": [_operator_json(part, features) for part in model.operators],
    }


def _operator_json(part: OperatorModel, features: Features) -> dict[str, Any]:
    return {
        "operator": part.operator,
        "rows": part.rows,
        "devices": list(part.devices),
        "templates": dict(part.templates),
        "noise": part.noise,
        "held_out": [figures.to_json() for figures in part.held_out],
        "features": [i.to_json() for i in features.get(part.operator, ())],
    }


def _show(console: Console, model: TrainedModel, data: TrainingData, out: str) -> None:
    for part in model.operators:
        problems = len({one.problem for one in part.observations})
        times = formatting.plural(part.rows, f"{model.provenance} time")
        console.print(f"{part.operator}: {times} of {formatting.plural(problems, 'problem')} on {listed(part.devices)}")
        _show_held_out(console, part.held_out)
    for reason, count in sorted(data.left_out.items()):
        console.print(f"left out: {formatting.plural(count, 'time')} {reason}")
    if model.provenance == "estimated":
        stderr_console().print(
            "the times are ESTIMATED: the model imitates another model, so its predictions are estimates, too"
        )
    console.print(f"written: {out}")


def _show_held_out(console: Console, held_out: Sequence[HeldOut]) -> None:
    for split, (meaning, row) in _SPLITS.items():
        rows = [figures for figures in held_out if figures.split == split]
        if not rows:
            continue
        console.print()
        console.print(f"held out by {split}: {meaning}")
        table = formatting.table(row, *_FIGURES, right=_FIGURES, fold=(row,))
        for figures in rows:
            regrets = (figures.regret_1, figures.regret_5, figures.regret_10)
            table.add_row(
                _named(figures) if figures.name else "all",
                formatting.count(figures.rows),
                f"{figures.spearman:.2f}",
                *(f"{100 * regret:.1f} %" for regret in regrets),
                f"{100 * figures.within_1:.0f} %",
                f"{100 * figures.within_2:.0f} %",
            )
        show(console, table)
    console.print()


def _named(figures: HeldOut) -> str:
    if figures.split not in ("schedules", "problems"):
        return figures.name
    import json as text

    problem: Mapping[str, Any] = text.loads(figures.name)
    return formatting.one_line(problem_from_json(problem))
