"""The search benchmarks run on a synthetic recording."""

import gzip
import json
import random
import sys
import tempfile
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from autosched.replay.search import search
from autosched.samplers import sampler
from autosched.tuning.in_flight import InFlightLimit
from benchmarks.search import own_spaces, proposal_time, search_clock, search_methods, search_quality
from benchmarks.search.search_clock import Costs, Machine, Searcher
from measurements.tables.reading import read_table
from search_spaces.hardware.devices import device


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a recording of 60 configurations, of which x = 8, y = 2, z = 0 is the best."""
    entries = {}
    for x, y, z in product((1, 2, 4, 8, 16), (1, 2, 4), (0, 1, 2, 3)):
        time = 1 + abs(x - 8) / 8 + abs(y - 2) / 2 + 0.2 * z
        entries[f"{x},{y},{z}"] = {"x": x, "y": y, "z": z, "time": time, "times": [time]}
    values = {"x": [1, 2, 4, 8, 16], "y": [1, 2, 4], "z": [0, 1, 2, 3]}
    document = {"device_name": "A GPU", "kernel_name": "k", "problem_size": [1, 1], "tune_params_keys": list(values)}
    document |= {"tune_params": values, "cache": entries}
    path = tmp_path / "data"
    path.mkdir()
    (path / "small.json.gz").write_bytes(gzip.compress(json.dumps(document).encode()))
    return path


def test_every_method_but_kernel_tuner_searches(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    methods = ["random", "optuna_tpe_ordinal", "xgboost_bootstrap"]
    arguments = [
        "--repeats",
        "1",
        "--budget",
        "12",
        "--workers",
        "1",
        "--results",
        str(tmp_path / "r"),
        "--name",
        "small",
    ]
    assert search_quality.main([str(folder), *arguments, "--methods", *methods]) == 0
    document = json.loads((tmp_path / "r" / "small.json").read_text())
    assert [row["sampler"] for row in document["recordings"]["small"]] == methods
    table = (tmp_path / "r" / "small.md").read_text()
    assert all(f"| {method} |" in table for method in methods)
    assert (tmp_path / "r" / "small.png").stat().st_size > 1000


def test_workers_search_after_this_process_has_used_openmp(folder: Path, tmp_path: Path) -> None:
    """Workers must not be forked: a forked worker would wait for OpenMP threads that exist only in the parent."""
    pytest.importorskip("matplotlib")
    xgboost = pytest.importorskip("xgboost")
    rows = np.random.default_rng(0).random((1000, 4))
    xgboost.train({"nthread": 2}, xgboost.DMatrix(rows, label=rows[:, 0], nthread=2), num_boost_round=2)
    arguments = ["--repeats", "1", "--budget", "12", "--workers", "1", "--results", str(tmp_path)]
    assert search_quality.main([str(folder), *arguments, "--methods", "xgboost_bootstrap"]) == 0


def test_restrictions_reproduce_the_recorded_space() -> None:
    values = {
        "block_size_x": [1, 16, 32],
        "block_size_y": [16, 32, 64],
        "tile_size_x": [1, 2],
        "tile_size_y": [1, 2],
        "tile_stride_x": [0, 1],
        "tile_stride_y": [0, 1],
    }
    recorded = {
        (bx, by, tx, ty, sx, sy)
        for bx, by, tx, ty, sx, sy in product(*values.values())
        if 32 <= bx * by <= 1024 and (tx > 1 or sx == 0) and (ty > 1 or sy == 0)
    }
    assert "tile_size_x > 1 or tile_stride_x == 0" in search_methods._restrictions(values, recorded)
    with pytest.raises(ValueError, match="add them to RESTRICTIONS"):
        search_methods._restrictions(values, {*list(recorded)[1:]})


def test_kernel_tuner_searches_the_recording_with_its_seed_and_cleans_up(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernel Tuner is not installed for tests. A fake uses the same random generators as Kernel Tuner."""

    def tune_kernel(*positional: object, cache: str, **options: object) -> tuple[list[dict[str, object]], None]:
        entries = list(json.loads(Path(cache).read_text())["cache"].values())
        return [random.choice(entries), entries[np.random.randint(len(entries))]], None

    monkeypatch.setitem(sys.modules, "kernel_tuner", SimpleNamespace(tune_kernel=tune_kernel))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    jobs = [search_methods.Job(str(folder / "small.json.gz"), "kt_random_sample", seed, 2) for seed in (0, 0, 1)]
    first, again, other = (search_methods.run(job)[1].quality for job in jobs)
    assert first == again != other
    assert not list(tmp_path.glob("search_quality_*"))


def test_a_complete_recording_has_no_restrictions() -> None:
    values = {"order": ["row", "column"], "x": [1, 2], "part": [0.5, 1.0]}
    assert search_methods._restrictions(values, set(product(*values.values()))) == []


def test_methods_are_selected_per_recording_and_unknown_ones_rejected(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [Path("a.json.gz"), Path("b.json.gz")]
    jobs = search_quality.jobs(files, ["random", "bayes@b", "tpe@a:1"], repeats=2, budget=9)
    assert [(job.file[0], job.method, job.seed) for job in jobs] == [
        *(("a", "random", 0), ("a", "random", 1), ("b", "random", 0), ("b", "random", 1)),
        *(("b", "bayes", 0), ("b", "bayes", 1), ("a", "tpe", 0)),
    ]
    assert search_quality.main([str(folder), "--methods", "magic"]) == 2
    assert search_quality.main([str(folder), "--methods", "bayes:few"]) == 2
    assert search_quality.main([str(folder), "--methods", "bayes@elsewhere"]) == 2
    messages = capsys.readouterr().err.splitlines()
    assert (
        len(messages) == 3
        and "'magic'" in messages[0]
        and "'bayes:few'" in messages[1]
        and "'elsewhere'" in messages[2]
    )


def test_a_stopped_run_resumes(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_quality, "_write", lambda _, searches, *options: str(searches))
    journal = tmp_path / "journal"
    arguments = ["--repeats", "2", "--budget", "9", "--workers", "1", "--methods", "random", "--journal", str(journal)]
    assert search_quality.main([str(folder), *arguments]) == 0
    complete_journal = journal.read_text()
    first, second = complete_journal.splitlines()
    altered = first[: first.rindex("[")] + "[0.125]]"
    journal.write_text(f"{altered}\n{second[:20]}")
    assert search_quality.main([str(folder), *arguments]) == 0
    assert journal.read_text() == f"{altered}\n{second}\n"  # only the truncated line is recomputed


def test_invalid_journals_are_rejected(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "journal").write_text("[1]\n")
    assert search_quality.main([str(folder), "--journal", str(tmp_path / "journal")]) == 2
    assert "line 1 of" in capsys.readouterr().err


def test_a_search_stops_at_the_optimum_and_its_curve_is_extended(folder: Path) -> None:
    path = folder / "small.json.gz"
    _, result = search_methods.run(search_methods.Job(str(path), "random", seed=0, budget=59))
    assert len(result.quality) == 59 and result.quality[0] < 1.0
    table = read_table(path)
    full_search = search(table, table.space(), sampler("random", table.space(), seed=0), budget=59, seed=0)
    assert result.quality == full_search.quality


def test_an_empty_folder_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert search_quality.main([str(tmp_path)]) == search_clock.main([str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 2


def test_compilers_and_the_gpu_work_at_the_same_time() -> None:
    machine = Machine(2, Costs(compile=3.0, measure=1.0))
    assert [machine.finish(0.0) for _ in range(4)] == [4.0, 5.0, 7.0, 8.0]  # two candidates are compiled at a time
    assert machine.finish(20.0) == 24.0


@pytest.mark.parametrize("cores", [2, 16])
def test_a_simulated_search_ends_at_the_optimum(folder: Path, cores: int) -> None:
    table, costs = read_table(folder / "small.json.gz"), Costs(compile=1.0, measure=0.1)

    def new_searcher() -> Searcher:
        return Searcher(table, table.space(), "random", cores, costs, 0)

    alone, evaluations = search_clock.stream(new_searcher(), InFlightLimit(most=1), costs)
    assert alone == pytest.approx(1.1 * evaluations, rel=0.1) and evaluations <= 60
    several, same = search_clock.stream(new_searcher(), InFlightLimit(compilers=cores), costs)
    assert same == evaluations  # random proposals do not depend on results
    assert several < alone / min(cores, 5) * 1.5
    by_four, num_reported = search_clock.batches(new_searcher(), 4)
    assert num_reported == evaluations and by_four >= several * 0.9


def test_a_search_in_our_own_space_is_judged_by_the_model(tmp_path: Path) -> None:
    arguments = [
        "--trials",
        "8",
        "--reference",
        "200",
        "--repeats",
        "1",
        "--families",
        "copy",
        "--results",
        str(tmp_path),
    ]
    assert own_spaces.main(arguments) == 0
    chip, problem = device("h200"), own_spaces.families()["copy"]
    family = own_spaces.run("copy", problem, chip, trials=8, reference=200, repeats=1)
    one = own_spaces.run("copy", problem, chip, trials=1, reference=200, repeats=3)
    assert family is not None and one is not None and family.schedules > 1000
    assert 0 <= family.gap < max(one.gaps)
    assert f"{100 * family.gap:.1f}%" in (tmp_path / "own_spaces.md").read_text()


def test_proposals_are_timed_in_an_unpruned_space(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    space, judge = proposal_time.unpruned(device("h200"))
    assert space.count() > 10**13
    judged = [judge(schedule).ok for schedule in space.sample(8, 0)]
    assert any(judged)
    table = read_table(folder / "small.json.gz")
    spent = proposal_time.proposals(table.space(), table.measurements.__getitem__, 7, seed=0)
    assert len(spent) == 7 and all(seconds > 0 for seconds in spent)


@pytest.mark.parametrize(
    "method", ["helion_pattern", "helion_lfbo_quick", pytest.param("helion_lfbo", marks=pytest.mark.nightly)]
)
def test_a_search_of_helion_measures_recorded_configurations_once_each(folder: Path, method: str) -> None:
    pytest.importorskip("helion")
    pytest.importorskip("sklearn")
    from benchmarks.search.helion_search import visits

    table = read_table(str(folder / "small.json.gz"))
    visited = list(visits(table, method, 3, 12))
    assert len(set(visited)) == len(visited) <= 12
    assert all(schedule in table.measurements for schedule in visited)
    assert visited == list(visits(table, method, 3, 12))
