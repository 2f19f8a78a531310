"""Searches that restrict the order of sums: to the order of a reference, or to batch-invariant orders."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

import autosched
from autosched import Matmul, Softmax
from autosched.cli import main
from autosched.verify import stored
from autosched.verify.launch import LaunchUnderTest
from measurements.emulator import ASCENDING
from measurements.store.store import Store
from measurements.trials.problem_key import problem_of
from search_spaces.catalogue import template, templates_for
from search_spaces.hardware.devices import device
from search_spaces.operators.transpose import Transpose
from search_spaces.spaces.sum_order import SumOrder
from search_spaces.sum_orders.orders import sum_order

pytestmark = [needs_nvrtc, needs_compiler]

GPU = "a100"


def order_of(trial: autosched.Trial) -> SumOrder | None:
    problem = problem_of(trial.problem_key)
    return sum_order(template(trial.schedule.template), problem, trial.schedule, device(GPU))


def tuned(problem: object, database: Path, **options: object) -> autosched.TuneResult:
    return autosched.tune(
        problem, trials=3, device=GPU, backend="estimate", database=database, progress=False, verification_seconds=1,
        **options,
    )  # type: ignore[arg-type]  # fmt: skip


@pytest.fixture(scope="module")
def invariant(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("bits") / "invariant.db"
    for rows in (1, 40):
        result = tuned(Softmax(rows, 512), file, batch_invariant=True)
        assert result.best is not None
    return file


def test_every_batch_gets_one_order_and_a_verification(invariant: Path) -> None:
    with Store.open(invariant) as store:
        best = [store.best(Softmax(rows, 512), device(GPU).name) for rows in (1, 40)]
    orders = {order_of(trial) for trial in best if trial is not None}
    assert len(orders) == 1
    for trial in best:
        assert trial is not None
        assert stored.is_batch_invariant(trial.verification)
        assert stored.order(trial.verification) in orders
        names = [run["name"] for run in json.loads(trial.verification or "")["runs"]]
        assert {"launched twice", "rows moved by 1"} <= set(names) or trial is best[0]


def test_the_best_schedules_of_all_batches_give_a_row_the_same_bits(tmp_path: Path, nightly: bool) -> None:
    rows = Matmul(300, 48, 192, out="f32").random_inputs(0)
    results = {}
    for m in (1, 40, 300) if nightly else (1, 300):
        problem = Matmul(m, 48, 192, out="f32")
        best = tuned(problem, tmp_path / "all.db", batch_invariant=True, verify=False).best
        assert best is not None
        kernel = template(best.schedule.template).kernel(problem, best.schedule, device(GPU))
        emulation = LaunchUnderTest(kernel, {"a": rows["a"][:, :m].copy(), "b": rows["b"]}).run(ASCENDING)
        assert emulation.status == "ok"
        results[m] = best.schedule, emulation.outputs["out"]
    assert len({schedule for schedule, _ in results.values()}) > 1
    for m, (_, out) in results.items():
        assert np.array_equal(out[:, :m], results[300][1][:, :m])


def test_a_search_keeps_the_bits_of_a_stored_trial(invariant: Path, tmp_path: Path) -> None:
    with Store.open(invariant) as store:
        best = store.best(Softmax(40, 512), device(GPU).name)
    assert best is not None
    for reference in (str(invariant), f"{invariant}#{best.id}", best, best.schedule, order_of(best)):
        file = tmp_path / f"{type(reference).__name__}{len(str(reference))}.db"
        result = tuned(Softmax(40, 512), file, same_bits_as=reference, verify=False)
        assert {order_of(trial) for trial in result.trials} == {order_of(best)}
    result = tuned(Softmax(7, 512), tmp_path / "other.db", same_bits_as=str(invariant), verify=False)
    assert result.best is not None and order_of(result.best) == order_of(best)


def test_trials_of_other_orders_do_not_share_a_database(invariant: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="batch-invariant"):
        tuned(Softmax(40, 512), invariant)
    schedules = templates_for(Softmax(40, 512), device(GPU)).space(Softmax(40, 512), device(GPU)).sample(2, 3)
    assert len({sum_order(template(s.template), Softmax(40, 512), s, device(GPU)) for s in schedules}) == 2
    file = tmp_path / "any.db"
    for schedule, fits in zip(schedules, (True, False), strict=True):
        if fits:
            tuned(Softmax(40, 512), file, same_bits_as=schedule, verify=False)
            continue
        with pytest.raises(ValueError, match="order of sums"):
            tuned(Softmax(40, 512), file, same_bits_as=schedule, verify=False)


def test_check_verifies_batch_invariance_again(invariant: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--db", str(invariant), "--static", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)["entries"]
    assert [entry["numbers"]["batch_invariant"] for entry in entries] == ["holds", "holds"]


def test_check_rejects_an_entry_that_lost_its_order(invariant: Path, tmp_path: Path) -> None:
    file = tmp_path / "edited.db"
    file.write_bytes(invariant.read_bytes())
    with Store.open(file) as store:
        best = store.best(Softmax(40, 512), device(GPU).name)
        assert best is not None and best.verification is not None
        text = json.loads(best.verification)
        text["sum_order"] = [["threads along a row", "another", False]]
        store.set_verification(best, json.dumps(text, sort_keys=True, separators=(",", ":")))
    assert main(["check", "--db", str(file), "--static", "--no-emulate"]) == 1


def test_check_rejects_batches_with_several_orders(invariant: Path, tmp_path: Path) -> None:
    file = tmp_path / "merged.db"
    file.write_bytes(invariant.read_bytes())
    problem, other = Softmax(3, 512), tmp_path / "other.db"
    with Store.open(invariant) as store:
        best = store.best(Softmax(40, 512), device(GPU).name)
    assert best is not None
    templates = templates_for(problem, device(GPU))
    schedule = next(
        s
        for s in templates.space(problem, device(GPU)).sample(50, 1)
        if sum_order(templates.of(s), problem, s, device(GPU)) != order_of(best)
    )
    assert tuned(problem, other, same_bits_as=schedule, batch_invariant=True).best is not None
    assert main(["merge", str(other), "--into", str(file)]) == 0
    assert main(["check", "--db", str(file), "--static", "--no-emulate"]) == 1
    assert main(["check", "--db", str(other), "--static", "--no-emulate"]) == 0


def test_problems_without_a_batch_and_unusable_references_are_rejected(tmp_path: Path) -> None:
    file = tmp_path / "none.db"
    with pytest.raises(ValueError, match="batch"):
        tuned(Transpose(64, 64), file, batch_invariant=True)
    with pytest.raises(ValueError, match=r"missing\.db"):
        tuned(Softmax(40, 512), file, same_bits_as=str(tmp_path / "missing.db"))
    with pytest.raises(ValueError, match="same_bits_as"):
        tuned(Softmax(40, 512), file, same_bits_as=3)
    assert not file.exists()


def test_the_command_line_takes_both_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, problem = str(tmp_path / "cli.db"), ["softmax", "--rows", "8", "--columns", "256"]
    options = ["--device", GPU, "--backend", "estimate", "--trials", "2", "--no-verify", "--json"]
    assert main(["tune", *problem, "--batch-invariant", "--db", file, *options]) == 0
    best = json.loads(capsys.readouterr().out)["best"]
    assert best["order_of_sums"]
    reference = tmp_path / "reference.json"
    reference.write_text(json.dumps({"template": best["template"], "schedule": best["schedule"]}))
    other = str(tmp_path / "other.db")
    assert main(["tune", *problem, "--same-bits-as", str(reference), "--db", other, *options]) == 0
    assert json.loads(capsys.readouterr().out)["best"]["order_of_sums"] == best["order_of_sums"]
    assert main(["tune", *problem, "--same-bits-as", str(tmp_path / "no.db"), "--db", other, *options]) == 2
