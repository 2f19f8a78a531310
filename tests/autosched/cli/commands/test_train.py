"""``autosched train``: its training data, its output, and the inputs it rejects."""

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from observed import QUICK, make_trials, observations, store

from autosched.tuning.training_data import UNKNOWN_OPERATOR, gather, observations_of
from cost_models.trees import training
from cost_models.trees.observations import Observations
from cost_models.trees.trained_model import TrainedModel
from measurements.trials import recording
from measurements.trials.measurement import Provenance, Status
from measurements.trials.recording import Recording
from measurements.trials.trial import Trial
from search_spaces.operators.copy import Copy

Run = Callable[..., tuple[int, str, str]]

PROBLEMS = (Copy(2048, 2048), Copy(9000, 300))


@pytest.fixture
def run(command_line: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a command in the folder of ``best.db``. ``train`` fits few trees, to save time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training, "TRAINING", QUICK)
    store(tmp_path / "best.db", *(r for p in PROBLEMS for r in make_trials(observations(p, rows=16))))
    return command_line


def test_train_reports_the_accuracy_of_a_model(run: Run, tmp_path: Path) -> None:
    status, out, err = run("train", "--db", "best.db", "--out", "model.json")
    assert (status, err) == (0, "")
    assert re.search(r"^copy: 32 .* 2 .* h200", out, re.MULTILINE)
    for split in ("schedules", "problems", "families"):
        assert f"held out by {split}: " in out
    assert "devices" not in out  # all times were measured on one device
    assert "copy rows=9000 columns=300" in out
    assert "copy, balanced" not in out.split("held out by families")[0]
    assert "written: model.json" in out
    model = TrainedModel.load(tmp_path / "model.json")
    assert (model.provenance, model.operators[0].rows) == ("measured", 32)
    first = (tmp_path / "model.json").read_bytes()
    assert run("train", "--db", "best.db", "--out", "model.json")[0] == 0
    assert (tmp_path / "model.json").read_bytes() == first


def test_one_document_with_json(run: Run) -> None:
    status, out, _ = run("train", "--db", "best.db", "--out", "model.json", "--json")
    document = json.loads(out)
    assert status == 0
    assert (document["out"], document["rows"], document["provenance"]) == ("model.json", 32, "measured")
    (part,) = document["operators"]
    assert part["devices"] == ["h200"]
    assert {figures["split"] for figures in part["held_out"]} == {"schedules", "problems", "families"}


def test_recordings_and_several_databases_are_learned_together(run: Run, tmp_path: Path) -> None:
    other = observations(Copy(4096, 1000), "a100", rows=12)
    store(tmp_path / "other.db", *make_trials(other))
    recording.write(tmp_path / "r.jsonl.gz", Recording.of(make_trials(observations(Copy(100, 9000), rows=10))))
    command = ("train", "--db", "best.db", "--db", "other.db", "--recording", "r.jsonl.gz", "--out", "model.json")
    status, out, _ = run(*command)
    assert status == 0
    assert re.search(r"^copy: 54 .* 4 .* a100 .* h200", out, re.MULTILINE)
    assert "held out by devices" in out


def test_an_update_adds_new_times_to_the_model(run: Run, tmp_path: Path) -> None:
    """Training on two databases in succession gives the same model as training on both databases at once.

    Training on the same database again changes nothing.
    """
    store(tmp_path / "new.db", *make_trials(observations(Copy(4096, 1000), rows=12)))
    assert run("train", "--db", "best.db", "--out", "old.json")[0] == 0
    assert run("train", "--update", "old.json", "--db", "new.db", "--out", "both.json")[0] == 0
    assert run("train", "--db", "new.db", "--db", "best.db", "--out", "once.json")[0] == 0
    assert (tmp_path / "both.json").read_bytes() == (tmp_path / "once.json").read_bytes()
    assert run("train", "--update", "both.json", "--db", "new.db", "--out", "both.json")[0] == 0
    assert (tmp_path / "both.json").read_bytes() == (tmp_path / "once.json").read_bytes()


def test_a_model_of_another_feature_version_is_retrained_on_its_times(run: Run, tmp_path: Path) -> None:
    assert run("train", "--db", "best.db", "--out", "model.json")[0] == 0
    data = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "old.json").write_text(json.dumps({**data, "feature_version": 0}))
    assert run("train", "--update", "old.json", "--out", "new.json")[0] == 0
    assert (tmp_path / "new.json").read_bytes() == (tmp_path / "model.json").read_bytes()


def test_training_uses_estimated_times_only_on_request(run: Run, tmp_path: Path) -> None:
    store(tmp_path / "e.db", *make_trials(observations(PROBLEMS[0], rows=14), provenance=Provenance.ESTIMATED))
    status, _, err = run("train", "--db", "e.db", "--out", "model.json")
    assert status == 2
    assert "--estimated" in err
    assert "14" in err
    assert not (tmp_path / "model.json").exists()
    status, out, err = run("train", "--db", "e.db", "--out", "model.json", "--estimated")
    assert status == 0
    assert "copy: 14 estimated times" in out
    assert "ESTIMATED" in err
    assert TrainedModel.load(tmp_path / "model.json").provenance == "estimated"
    status, _, err = run("train", "--update", "model.json", "--db", "best.db", "--out", "model.json")
    assert status == 2
    assert "estimated" in err and "measured" in err


def test_unusable_trials_are_excluded_and_counted(tmp_path: Path) -> None:
    observed = observations(PROBLEMS[0], rows=16)
    half = Observations(observed.problem, observed.device, observed.schedules[:4], observed.seconds[:4])
    mixed = [
        *make_trials(observed),
        *make_trials(half, status=Status.TIMEOUT, reason="slow", timing=None),  # failures that are newer than the times
        *make_trials(observations(Copy(64, 64), rows=5), fingerprint='{"cache":"warm"}'),
        *make_trials(observations(Copy(64, 65), rows=6), device="gtx970"),
        *make_trials(observations(Copy(64, 66), rows=7), problem_key='{"operator":"fft"}'),
        *make_trials(observations(Copy(64, 67), rows=3), provenance=Provenance.ESTIMATED),
    ]
    data = gather([store(tmp_path / "m.db", *mixed)], [], "measured")
    assert data.rows == 12
    assert data.other_kind_count == 3
    assert data.left_out == {
        "timed with another policy than the default (warm graph free)": 5,
        "of gtx970, which is not in the device table": 6,
        "of unknown operators": 7,
    }


def test_repeated_times_count_once(tmp_path: Path) -> None:
    observed = observations(PROBLEMS[0], rows=3)
    faster = Observations(observed.problem, observed.device, observed.schedules, tuple(s / 2 for s in observed.seconds))
    ranked = make_trials(faster, rank=1)[:1]
    (gathered,) = gather(
        [store(tmp_path / "m.db", *make_trials(observed), *make_trials(faster), *ranked)], [], "measured"
    ).observations
    times = dict(zip(gathered.schedules, gathered.seconds, strict=True))
    assert times[observed.schedules[0]] == observed.seconds[0] / 2  # a time with a rank replaces the other times
    assert times[observed.schedules[1]] == pytest.approx(observed.seconds[1] * 0.75)  # the median of the two times


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--db", "best.db"], "train needs --out"),
        (["--out", "m.json"], "give --db, --recording or --update"),
        (["--db", "best.db", "--out", "no/m.json"], "no/m.json cannot be written"),
        (["--db", "best.db", "--out", "."], "cannot be written"),
        (["--db", "best.db", "--out", "/dev/null"], 'invalid output "/dev/null"'),
        (["--db", "best.db", "--out", "best.db"], "best.db is also an input"),
        (["--db", "few.db", "--out", "best.db"], "best.db is a database, and would be replaced"),
        (["--db", "best.db", "--out", "m.svg", "--explain", "--picture", "m.svg"], "m.svg is given for two outputs"),
        (["--db", "best.db", "--out", "m.json", "--explain", "--picture", "no/m.svg"], "no/m.svg cannot be written"),
        (["--db", "no.db", "--out", "m.json"], "no.db"),
        (["--db", "junk", "--out", "m.json"], "junk"),
        (["--recording", "junk", "--out", "m.json"], "junk is not a complete gzip file"),
        (["--recording", "none", "--out", "m.json"], "none cannot be read"),
        (["--update", "junk", "--out", "m.json"], "the cost model junk cannot be used"),
        (["--update", "none", "--out", "m.json"], "none cannot be read (No such file or directory)"),
        (["--db", "few.db", "--out", "m.json"], "copy has 4 usable times, but training needs 10"),
        (["--db", "empty.db", "--out", "m.json"], "no measured times to learn from: tune first"),
        (["--db", "best.db", "--out", "m.json", "--seed", "-1"], "--seed must be at least 0"),
    ],
)
def test_invalid_input_is_rejected_in_one_line(run: Run, tmp_path: Path, arguments: list[str], complaint: str) -> None:
    (tmp_path / "junk").write_text("junk")
    store(tmp_path / "few.db", *make_trials(observations(PROBLEMS[0], rows=4)))
    store(tmp_path / "empty.db")
    status, out, err = run("train", *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("autosched: ")
    assert err.count("\n") == 1
    assert complaint in err
    assert not (tmp_path / "m.json").exists()


def excluded_trials(trials: Sequence[Trial]) -> Mapping[str, int]:
    left_out: dict[str, int] = {}
    assert not observations_of(trials, left_out)
    return left_out


def test_estimated_is_not_suggested_for_unusable_trials(run: Run, tmp_path: Path) -> None:
    (trial,) = make_trials(observations(PROBLEMS[0], rows=1))
    estimate = dataclasses.replace(trial.measurement, provenance=Provenance.ESTIMATED)
    foreign = dataclasses.replace(trial, problem_key='{"n":1000,"operator":"thrice"}', measurement=estimate)
    strange = dataclasses.replace(trial, problem_key='{"n":64,"operator":"copy"}')
    odd = [dataclasses.replace(trial, problem_key=key) for key in ('{"n":64', "[1]", '{"operator":["copy"]}')]
    assert excluded_trials(odd) == {UNKNOWN_OPERATOR: 3}
    store(tmp_path / "foreign.db", foreign, strange)
    err = run("train", "--db", "foreign.db", "--out", "m.json")[2]
    assert "1 of problems that this version" in err and "--estimated" not in err


def test_train_explains_feature_importance(run: Run, tmp_path: Path) -> None:
    """The recorded times grow with the unroll factor, which the analytic model ignores."""
    assert run("train", "--db", "best.db", "--out", "model.json")[0] == 0
    before = (tmp_path / "model.json").read_bytes()
    status, out, _ = run("train", "--update", "model.json", "--explain", "--picture", "decides.svg")
    assert status == 0
    assert (tmp_path / "model.json").read_bytes() == before
    assert "copy: " in out
    shown = {
        line.split()[0]: line for line in out.splitlines() if line.startswith(("schedule.", "model.", "attribute."))
    }
    assert re.search(r"^\d+ less important features not shown$", out, re.MULTILINE)
    assert "slower" in shown["model.seconds"]
    assert "slower" in shown["schedule.copy.unroll"]
    assert "schedule.copy.unroll" in (tmp_path / "decides.svg").read_text()
    document = json.loads(run("train", "--update", "model.json", "--explain", "--json")[1])
    features = {f["name"]: f for f in document["operators"][0]["features"]}
    assert sum(f["gain"] for f in features.values()) == pytest.approx(1.0)
    assert list(features)[:2] in (["schedule.copy.unroll", "model.seconds"], ["model.seconds", "schedule.copy.unroll"])
    for wrong in (["--picture", "x.svg"], ["--explain", "--picture", "x.bmp"]):
        status, _, err = run("train", "--update", "model.json", *wrong)
        assert (status, err.count("\n")) == (2, 1)


def test_train_ignores_user_kernels(run: Run, tmp_path: Path) -> None:
    of_a_file = make_trials(observations(Copy(64, 66), rows=12), problem_key='{"n":9,"operator":"of_a_file"}')
    store(tmp_path / "k.db", *of_a_file)
    status, _, err = run("train", "--db", "k.db", "--out", "m.json")
    assert status == 2
    assert "12 of unknown operators): a model learns from operators of this installation" in err


def test_explain_omits_schedules_of_removed_values(run: Run, tmp_path: Path) -> None:
    """A later version may have removed values, or a whole template, that the model was trained on."""
    assert run("train", "--db", "best.db", "--out", "model.json")[0] == 0
    document = json.loads((tmp_path / "model.json").read_text())
    first = document["operators"][0]["observations"][0]
    position = first["tables"][0]["parameters"].index("unroll")
    for row in first["tables"][0]["rows"]:
        row[position] = 12345
    (tmp_path / "some.json").write_text(json.dumps(document))
    assert run("train", "--update", "some.json", "--explain")[0] == 0
    for observation in document["operators"][0]["observations"]:
        for table in observation["tables"]:
            table["template"] = "no_such_template"
    (tmp_path / "none.json").write_text(json.dumps(document))
    status, _, err = run("train", "--update", "none.json", "--explain")
    assert status == 2
    assert err == (
        "autosched: the model's training data has no copy schedule that is valid in this version: train the model "
        "again\n"
    )
