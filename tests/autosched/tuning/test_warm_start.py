"""A search starts from a trained model, or from other problems in the database, and reports the benefit."""

import dataclasses
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from needs import needs_nvrtc
from observed import QUICK, make_trials, observations, seconds, store

from autosched.tuning import tune as tuner
from autosched.tuning import warm_start
from autosched.tuning.ledger import RunIdentity
from autosched.tuning.tune import tune
from autosched.tuning.warm_start import WarmStart
from cost_models.estimates import AnalyticEstimates, estimates_of
from cost_models.trees import training
from cost_models.trees.boosted import ModelMismatch
from cost_models.trees.evaluation import rank_correlation
from cost_models.trees.trained_model import TrainedModel
from cost_models.trees.training import train
from measurements.store.store import Store
from measurements.trials.measurement import Provenance
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import device
from search_spaces.operators.copy import Copy
from search_spaces.operators.row_reduction import Softmax
from search_spaces.search_task import SearchTask

H200 = device("h200")
PROBLEM = Copy(3000, 5000)
TEMPLATES = templates_for(PROBLEM, H200)
SPACE = TEMPLATES.space(PROBLEM, H200)
TASK = SearchTask(PROBLEM, H200, TEMPLATES, SPACE)
SCHEDULES = SPACE.sample(60, 1)
OTHER_PROBLEMS = (Copy(2048, 2048), Copy(4096, 1000), Copy(9000, 300))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "TRAINING", QUICK)


def run_of(provenance: Provenance) -> RunIdentity:
    return RunIdentity.of(TASK, provenance, None, 0)


@cache
def model(provenance: str = "measured") -> TrainedModel:
    return TrainedModel(train([observations(p) for p in OTHER_PROBLEMS]), provenance, "1.0")


def agreement(start: WarmStart) -> float:
    return rank_correlation(start.estimates.log_seconds(SCHEDULES), seconds(PROBLEM, "h200", SCHEDULES))


def test_a_model_foresees_a_problem_it_has_not_seen() -> None:
    start = warm_start.from_model(model(), "m.json", TASK, estimates_of(TASK))
    analytic = AnalyticEstimates(PROBLEM, TEMPLATES, H200)
    assert agreement(start) > max(0.9, agreement(WarmStart(analytic)))
    assert start.lines == ("the search starts from m.json, trained on 90 measured times of copy",)
    np.testing.assert_array_equal(start.estimates.features(SCHEDULES), analytic.features(SCHEDULES))


def test_doubtful_transfers_are_reported() -> None:
    a100 = device("a100")
    task = SearchTask(PROBLEM, a100, TEMPLATES, TEMPLATES.space(PROBLEM, a100))
    start = warm_start.from_model(model("estimated"), "m.json", task, estimates_of(task))
    assert "were not measured" in start.lines[0]
    assert all(word in start.lines[1] for word in ("m.json", "a100", "h200"))
    trained = model()
    old = dataclasses.replace(trained.operators[0], templates=(("copy", "older"),))
    other = dataclasses.replace(trained.operators[0], templates=(("other", "1"),))
    for part, doubt in ((old, "copy has changed since"), (other, "no times of the kernel template copy")):
        changed = dataclasses.replace(trained, operators=(part,))
        assert doubt in warm_start.from_model(changed, "m.json", TASK, estimates_of(TASK)).lines[-1]


def test_a_model_that_does_not_fit_is_rejected() -> None:
    softmax = Softmax(256, 1000)
    templates = templates_for(softmax, H200)
    task = SearchTask(softmax, H200, templates, templates.space(softmax, H200))
    with pytest.raises(ModelMismatch, match="for copy, not for softmax"):
        warm_start.from_model(model(), "m", task, estimates_of(task))
    trained = model()
    names = tuple(
        "schedule.copy.other" if n == "schedule.copy.unroll" else n for n in trained.operators[0].boosted.names
    )
    boosted = dataclasses.replace(trained.operators[0].boosted, names=names)
    strange = dataclasses.replace(trained, operators=(dataclasses.replace(trained.operators[0], boosted=boosted),))
    with pytest.raises(ModelMismatch, match="features differ"):
        warm_start.from_model(strange, "m", TASK, estimates_of(TASK))


def test_other_problems_of_the_database_are_used_by_default(tmp_path: Path) -> None:
    path = store(tmp_path / "b.db", *(r for p in OTHER_PROBLEMS for r in make_trials(observations(p))))
    with Store.open(path) as opened:
        start = warm_start.from_other_problems(opened, run_of(Provenance.MEASURED), TASK, estimates_of(TASK))
        none = warm_start.from_other_problems(opened, run_of(Provenance.ESTIMATED), TASK, estimates_of(TASK))
        again = warm_start.from_other_problems(opened, run_of(Provenance.MEASURED), TASK, estimates_of(TASK))
    assert start.source == f"90 measured times of 3 other problems in {path}"
    assert start.analytic is not None
    assert agreement(start) > 0.9
    np.testing.assert_array_equal(again.estimates.log_seconds(SCHEDULES), start.estimates.log_seconds(SCHEDULES))
    assert none.analytic is None  # no prior, since the stored times have another provenance
    assert none.lines == ()


def test_the_benefit_of_the_warm_start_is_reported() -> None:
    start = warm_start.from_model(model(), "m.json", TASK, estimates_of(TASK))
    times = seconds(PROBLEM, "h200", SCHEDULES)
    observed = dataclasses.replace(observations(PROBLEM), schedules=tuple(SCHEDULES), seconds=times)
    report = start.worth(make_trials(observed))
    assert report.startswith("m.json, trained on 90 measured times of copy: rank correlation with this run's times 0.9")
    within = 100 * (min(times[:5]) / min(times) - 1)
    assert f"the first five trials came within {within:.1f} % of the best" in report
    assert start.worth(make_trials(observed)[:3]) == ""
    assert WarmStart(start.analytic).worth(make_trials(observed)) == ""  # type: ignore[attr-defined]


@needs_nvrtc
def test_tune_estimates_with_a_model_and_never_mixes_its_times(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    model().save(path)
    result = tune(
        PROBLEM, trials=4, database=tmp_path / "b.db", device="h200", backend="estimate", verify=False, model=path
    )
    assert len(result.trials) == 4
    trained = TrainedModel.load(path)
    assert f"{tuner.backends.TRAINED} {trained.digest[:12]} (of measured times)" in result.lines[1]
    assert result.best is not None
    assert "trained model" in json.loads(result.best.fingerprint)["model"]
    schedules = [r.schedule for r in result.trials]
    times = np.array([r.seconds for r in result.trials])
    guesses = AnalyticEstimates(PROBLEM, TEMPLATES, H200).corrected(trained.operators[0].predict).log_seconds(schedules)
    np.testing.assert_allclose(np.log(times), guesses, atol=1e-5)
    with pytest.raises(ValueError, match=r"by the trained model .*, not by the analytic model"):
        tune(PROBLEM, trials=1, database=tmp_path / "b.db", device="h200", backend="estimate", verify=False)


def test_an_invalid_model_is_rejected_before_the_database_is_created(tmp_path: Path) -> None:
    (tmp_path / "junk").write_text("{}")
    for name, complaint in (("junk", "is not a cost model"), ("none", "cannot be read")):
        with pytest.raises(ValueError, match=complaint):
            tune(PROBLEM, trials=1, database=tmp_path / "b.db", device="h200", model=tmp_path / name)
    assert not (tmp_path / "b.db").exists()
