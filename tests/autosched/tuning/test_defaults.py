"""``autosched.tune(problem)`` without options, and look-ups of its results."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import autosched
from autosched.dispatch import functions
from measurements.files.data_folder import default_database
from measurements.store.store import Store

COPY = autosched.Copy(rows=64, columns=64)


def test_a_problem_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "_default", functions._Default())
    assert functions._default.get().best(COPY) is None
    result = autosched.tune(COPY, trials=1, device="h200", verify=False)
    assert result.database == os.path.join(os.environ["XDG_DATA_HOME"], "autosched", "best.db")
    with Store.open(result.database, create=False) as store:
        assert store.count() == 1
    assert functions._default.get().best(COPY) is not None, "calls without a database find it"


def test_a_refusal_makes_no_folder() -> None:
    with pytest.raises(ValueError, match="unknown sampler"):
        autosched.tune(COPY, sampler="none")
    assert not os.path.exists(os.environ["XDG_DATA_HOME"])


def test_the_environment_names_the_usual_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_DB", str(tmp_path / "named.db"))
    assert default_database() == str(tmp_path / "named.db")
    assert autosched.tune(COPY, trials=1, device="h200", verify=False).database == str(tmp_path / "named.db")


def test_all_public_names_exist() -> None:
    assert dir(autosched) == sorted(autosched.__all__)
    for name in autosched.__all__:
        assert getattr(autosched, name) is not None
