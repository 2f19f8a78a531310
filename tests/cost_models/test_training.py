"""Offline training over several problems' tables."""

import numpy as np
import pytest

from cost_models.boosted import Settings
from cost_models.evaluation import rank_correlation
from cost_models.features import FeatureMismatch, FeatureTable, align
from cost_models.training import TrainingTable, train

QUICK = Settings(rounds=80, patience=15)
NAMES = (
    "problem.size",
    "work.steps",
    "schedule.matmul.tile",
    "schedule.matmul.layout=identity",
    "schedule.matmul.layout=pad",
)


def table(group: int, rows: int = 40, names: tuple[str, ...] = NAMES) -> TrainingTable:
    """Problems of different size that prefer the same middle tile; without the pad column the domain has no pad."""
    rng = np.random.default_rng(group)
    tile, pad = rng.integers(0, 7, rows), rng.integers(0, 2, rows) * ("schedule.matmul.layout=pad" in names)
    columns = {
        "problem.size": np.full(rows, group),
        "work.steps": rng.integers(0, 9, rows),
        "schedule.matmul.tile": tile,
        "schedule.matmul.layout=identity": 1 - pad,
        "schedule.matmul.layout=pad": pad,
    }
    seconds = 1e-5 * 4.0**group * np.exp(0.3 * np.abs(tile - 4) - 0.4 * pad + 0.03 * columns["work.steps"])
    values = np.stack([columns[name] for name in names], axis=1).astype(np.float32)
    return TrainingTable(FeatureTable(names, values), seconds, f"problem {group}")


def test_a_new_problem_is_ordered_by_what_others_taught() -> None:
    model, quality = train([table(g) for g in range(8)], QUICK)
    assert quality.groups == 2  # a fifth of eight problems
    assert quality.rank_correlation > 0.85
    new = table(20)
    assert rank_correlation(model.predict(align(new.features, model.names)), new.seconds) > 0.85
    assert model.names == NAMES


def test_training_repeats_itself() -> None:
    tables = [table(g, 20) for g in range(3)]
    assert train(tables, QUICK) == train(tables, QUICK)


def test_a_table_whose_domain_lacks_a_value_joins() -> None:
    fewer = table(1, names=tuple(n for n in NAMES if n != "schedule.matmul.layout=pad"))
    model, _ = train([fewer, table(2)], QUICK)
    assert set(model.names) == set(NAMES)
    aligned = align(fewer.features, model.names)
    assert (aligned[:, model.names.index("schedule.matmul.layout=pad")] == 0).all()


def test_tables_of_several_templates_join() -> None:
    """Rows of another template lack what this one decides, and the model learns from both."""
    other = table(1, names=("problem.size", "work.steps"))
    model, _ = train([table(2), other, table(3)], QUICK)
    assert set(model.names) == set(NAMES)
    assert np.isnan(align(other.features, model.names)[:, model.names.index("schedule.matmul.tile")]).all()
    assert np.isfinite(model.predict(align(other.features, model.names))).all()


def test_tables_of_different_operators_are_refused() -> None:
    names = ("problem.rows", "work.steps")
    other = TrainingTable(FeatureTable(names, np.zeros((20, 2), dtype=np.float32)), np.ones(20), "softmax")
    with pytest.raises(FeatureMismatch, match=r"features differ \(problem\.rows\).*operator"):
        train([table(1), other], QUICK)


def test_too_little_to_learn_from_is_refused() -> None:
    with pytest.raises(ValueError, match="at least ten measurements, not 6"):
        train([table(1, 6)], QUICK)
    with pytest.raises(ValueError, match="at least ten measurements, not 0"):
        train([], QUICK)


def test_a_table_needs_a_time_for_each_row() -> None:
    with pytest.raises(ValueError, match=r"3 rows of features and 2 times"):
        TrainingTable(table(1, 3).features, np.ones(2), "x")
