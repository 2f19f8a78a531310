"""A model file contains the complete model. Invalid files are rejected without crashes."""

import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import forked_python
import numpy as np
import pytest
from observed import observations

from cost_models.features import FEATURE_VERSION
from cost_models.trees.boosted import BoostedTreeSettings, ModelMismatch
from cost_models.trees.trained_model import TrainedModel
from cost_models.trees.training import table, train
from search_spaces.operators.copy import Copy
from search_spaces.operators.row_reduction import Softmax
from search_spaces.operators.transpose import Transpose

SMALL = BoostedTreeSettings(rounds=4, members=1, held_out=0.5)


@cache
def model() -> TrainedModel:
    seen = [observations(Copy(2048, 2048), rows=12), observations(Softmax(256, 1000), rows=12)]
    return TrainedModel(train(seen, SMALL), "measured", "1.0")


def test_a_file_makes_a_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    model().save(path)
    first = path.read_bytes()
    model().save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["model.json"]
    back = TrainedModel.load(path)
    assert back == model()
    back.save(path)
    assert path.read_bytes() == first
    rows = table(observations(Copy(256, 256), rows=8))
    part = model().of(Copy(256, 256))
    np.testing.assert_array_equal(back.of(Copy(256, 256)).predict(rows), part.predict(rows))
    with pytest.raises(ModelMismatch, match="copy, softmax, not for transpose"):
        back.of(Transpose(64, 64))


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text("old")
    with pytest.raises(OSError, match="absent"):
        model().save(tmp_path / "absent" / "model.json")
    assert path.read_text() == "old"
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        model().save(tmp_path / "folder")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "model.json"]


def _operator(**change: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"operators": [{**model().to_json()["operators"][0], **change}]}


def _boosted(**change: Any) -> Callable[[], dict[str, Any]]:
    return lambda: _operator(boosted={**model().operators[0].boosted.to_json(), **change})()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"format": "something else"}, "not a cost model of autosched"),
        ({"format_version": 99}, "format version 99"),
        ({"feature_version": FEATURE_VERSION + 1}, f"version {FEATURE_VERSION + 1}, and .*train --update"),
        ({"feature_version": None}, "version None"),
        ({"provenance": "guessed"}, "damaged.*guessed"),
        ({"autosched_version": 1}, "damaged"),
        ({"operators": []}, "damaged.*at least one operator"),
        ({"operators": {}}, "damaged"),
        ({"operators": [None]}, "damaged"),
        (_operator(operator=1), "damaged.*no name"),
        (_operator(operator="softmax"), "damaged.*softmax"),
        (_operator(noise=-1.0), "damaged.*noise"),
        (_operator(noise=True), "damaged.*noise"),
        (_operator(templates=["matmul"]), "damaged.*templates"),
        (_operator(observations=[]), "damaged"),
        (_operator(observations=[{}]), "damaged.*observations"),
        (_operator(held_out=[{}]), "damaged.*held-out"),
        (_operator(boosted=3), "damaged.*trees.*missing"),
        (_operator(boosted={}), "damaged.*names"),
        (_boosted(names=["a", "a"]), "damaged.*same name"),
        (_boosted(names=["a"]), "damaged.*trees"),
        (_boosted(members=[]), "damaged.*trees"),
        (_boosted(settings={}), "damaged.*settings"),
        (_boosted(level="fast"), "damaged.*level"),
        (_boosted(level=10**400), "damaged.*level"),
        (_boosted(level=-1e300), "damaged.*level"),
        (_boosted(corrects="x"), "damaged.*corrects x"),
    ],
)
def test_models_of_other_versions_are_rejected(
    tmp_path: Path, change: dict[str, Any] | Callable[[], dict[str, Any]], complaint: str
) -> None:
    path = tmp_path / "model.json"
    path.write_text(json.dumps({**model().to_json(), **(change() if callable(change) else change)}))
    with pytest.raises(ModelMismatch, match=complaint) as error:
        TrainedModel.load(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": "autosched cost model"', "[" * 100_000, "\0"])
def test_invalid_json_is_rejected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(ModelMismatch, match="cannot be used"):
        TrainedModel.load(path)
    with pytest.raises(OSError, match="absent"):
        TrainedModel.load(tmp_path / "absent")


_LOADER = """
import sys
from pathlib import Path
import numpy as np
from cost_models.trees.boosted import ModelMismatch
from cost_models.trees.trained_model import TrainedModel

used = refused = 0
for path in sorted(Path(sys.argv[1]).iterdir()):
    try:
        model = TrainedModel.load(path)
    except ModelMismatch as error:
        assert "\\n" not in str(error), error
        refused += 1
        continue
    for part in model.operators:
        rows = np.random.default_rng(0).random((50, len(part.boosted.names))).astype(np.float32)
        assert np.isfinite(part.boosted.predict(rows)).all(), path
        assert np.isfinite(part.boosted.contributions(rows)).all(), path
    used += 1
print(used, refused)
"""


@pytest.mark.timeout(1800)
def test_loading_a_damaged_file_never_crashes(tmp_path: Path, nightly: bool) -> None:
    """Load three hundred damaged files in one process (thousands in the nightly run).

    In these files, numbers in trees are replaced, columns are cut, or bytes are overwritten.
    """
    rng = np.random.default_rng(7)
    document = json.dumps(model().to_json())
    strange = [-1, 0, 1, 2, 3, 7, 10**6, 2**31 - 1, -(2**31), 2**63, 10**30, 1e308, -0.5, float("nan"), None, "1", []]
    files = 3334 if nightly else 300
    for number in range(files):
        data = json.loads(document)
        forest = data["operators"][number % 2]["boosted"]["members"][0]
        if number % 5 < 3:
            for _ in range(1 + number % 3):
                name = ("left", "feature", "missing_left", "value", "sizes", "cover")[int(rng.integers(6))]
                forest[name][int(rng.integers(len(forest[name])))] = strange[int(rng.integers(len(strange)))]
            text = json.dumps(data)
        elif number % 5 == 3:
            name = list(forest)[int(rng.integers(len(forest)))]
            forest[name] = strange[int(rng.integers(len(strange)))] if rng.random() < 0.5 else [0] * 5
            text = json.dumps(data)
        else:
            position = int(rng.integers(len(document) - 4))
            text = document[:position] + "".join(rng.choice(list('0123456789-.,[]{}"e'), 3)) + document[position + 3 :]
        (tmp_path / f"{number:04}.json").write_text(text)
    command = [sys.executable, "-c", _LOADER, str(tmp_path)]
    done = forked_python.run(command, capture_output=True, text=True, timeout=1500 if nightly else 240)
    assert done.returncode == 0, done.stderr[-2000:]
    used, refused = map(int, done.stdout.split())
    assert used + refused == files
    assert refused > files / 2
