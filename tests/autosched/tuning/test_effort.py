"""``effort`` supplies the settings that the caller does not pass."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from needs import needs_nvrtc

import autosched
from autosched.cli.app import run
from autosched.samplers.first_choices.model_choice import default_choice
from autosched.tuning.effort import EFFORTS
from autosched.tuning.options import MODEL_TRIALS, TuneOptions
from autosched.tuning.plan import SearchPlan
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import device

PROBLEM = autosched.Softmax(rows=64, columns=256)


def test_explicit_options_override_the_effort() -> None:
    quick = EFFORTS["quick"]
    plan = TuneOptions(effort="quick").plan()
    assert (plan.trials, plan.min_gain, plan.verification_seconds) == (
        quick.trials,
        quick.min_gain,
        quick.verification_seconds,
    )
    assert plan.model_first and not plan.search_model
    plan = TuneOptions(effort="quick", trials=5, min_gain=0.1).plan(model_alone=True)
    assert (plan.trials, plan.min_gain, plan.verification_seconds) == (5, 0.1, quick.verification_seconds)
    assert plan.model_first and not plan.search_model


def test_without_trials_or_a_sampler_a_model_that_makes_the_times_is_searched() -> None:
    plan = TuneOptions().plan(model_alone=True)
    assert plan.search_model and (plan.sampler, plan.trials) == ("model", MODEL_TRIALS)
    quick = TuneOptions(effort="quick").plan(model_alone=True)
    assert quick.search_model and not quick.model_first and quick.trials == EFFORTS["quick"].trials
    for chosen in (TuneOptions(trials=3), TuneOptions(sampler="random"), TuneOptions(objective="registers")):
        assert not chosen.plan(model_alone=True).search_model
    assert TuneOptions().plan() == SearchPlan()


def test_efforts_are_ordered_by_cost() -> None:
    costs = [e.trials for e in EFFORTS.values()]
    assert costs == sorted(costs) and costs[0] == 1


@needs_nvrtc
def test_effort_model_only_tries_the_models_choice(tmp_path: Path) -> None:
    result = autosched.tune(PROBLEM, database=tmp_path / "a.db", device="h100", effort="model", verify=False)
    (trial,) = result.trials
    choice = default_choice(PROBLEM, device("h100"), templates_for(PROBLEM, device("h100")))
    assert choice is not None and trial.schedule == choice.schedule and trial.sampler == "model"
    # The repr for notebooks escapes HTML.
    shown = dataclasses.replace(result, stopped="<b>no</b> & more")._repr_html_()
    assert shown.startswith(f"<table><tr><th>problem</th><td>{PROBLEM.operator}: ") and "(ESTIMATED)" in shown
    assert "&lt;b&gt;no&lt;/b&gt; &amp; more" in shown and "row_reduction: " in shown
    nothing = dataclasses.replace(result, best=None, trials=())._repr_html_()
    assert "nothing has worked yet" in nothing and "0, 0 with a time" in nothing


def test_an_unknown_effort_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match=r"model, quick, full, .*'most'"):
        autosched.tune(PROBLEM, database=tmp_path / "a.db", effort="most")
    assert (
        run(["tune", "softmax", "--rows", "64", "--columns", "256", "--db", str(tmp_path / "a.db"), "--effort", "x"])
        == 2
    )
    assert "model" in capsys.readouterr().err
    assert not (tmp_path / "a.db").exists()
