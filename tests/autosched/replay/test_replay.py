"""Searches over recorded measurements, and ``autosched replay``."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import forked_python
import pytest
from store_trials import make_trial

from autosched.cli import main
from autosched.replay.curves import draw_curves
from autosched.replay.search import Search, Searches, restricted, search, searches
from autosched.samplers import sampler
from measurements.store.store import Store
from measurements.tables.reading import read_table
from measurements.tables.table import Row, Table, TableError, table_of
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from search_spaces.operators.copy import Copy
from search_spaces.spaces.schedule import Schedule

Run = Callable[..., tuple[int, str, str]]


def measured(x: int, y: int, z: int) -> Measurement:
    """Return a table of measurements. The fastest is 1 ms at x = 16, y = 4, z = 1. Schedules with x = 1 fail."""
    if x == 1:
        return Measurement(Status.LAUNCH_ERROR, Provenance.REPLAYED, "too small")
    seconds = 1e-3 * (1 + abs(x - 16) / 16 + abs(y - 4) / 8 + 0.3 * (z != 1))
    return Measurement(Status.OK, Provenance.REPLAYED, timing=Timing(seconds, seconds, seconds, 3))


XYZ = tuple(product((1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16), (0, 1, 2)))
KERNELS: dict[str, dict[str, int]] = {"fma": {}, "mma": {"y": 4}}
TABLE = table_of("A GPU", [Row("k", {"x": x, "y": y, "z": z}, measured(x, y, z)) for x, y, z in XYZ])


def store_of_two_templates(path: Path) -> None:
    with Store.open(path) as store:
        for name, more in KERNELS.items():
            for x in (2, 4):
                chosen = Schedule(name, (("x", x), *more.items()))
                store.append(make_trial(chosen, measured(x, 4, 1), Copy(8, 8)))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    entries = {}
    for x, y, z in XYZ:
        timing = measured(x, y, z).timing
        entries[f"{x},{y},{z}"] = {"x": x, "y": y, "z": z, "time": timing.median * 1e3 if timing else "failed"}
    document = {"device_name": "A GPU", "kernel_name": "k", "tune_params_keys": ["x", "y", "z"], "cache": entries}
    (tmp_path / "cache.json").write_text(json.dumps(document))

    def command(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(["replay", *arguments])
        out, err = capsys.readouterr()
        return status, out, err

    return command


def test_an_evaluation_is_the_first_visit_of_a_configuration() -> None:
    space = TABLE.space()
    result = search(TABLE, space, sampler("random", space, seed=3), budget=200, seed=3, batch=7)
    assert len(result.quality) == len(XYZ)  # every schedule once, including the failed ones
    assert list(result.quality) == sorted(result.quality)
    assert result.quality[-1] == 1.0 and result.evaluations_to(1.0) is not None


def test_bayes_finds_the_optimum_in_far_fewer_evaluations_than_random() -> None:
    def median(name: str) -> float:
        summary = searches(
            TABLE, name, lambda s, seed: sampler(name, s, seed=seed), budget=90 if name == "random" else 50, repeats=5
        )
        evaluations = summary.median_evaluations_to(1.0)
        assert evaluations is not None
        return evaluations

    assert median("bayes") < 0.6 * median("random")


def test_medians_and_quartiles() -> None:
    runs = Searches("s", 3, tuple(Search(i, q, 0.0) for i, q in enumerate([(0.5, 1.0, 1.0), (0.2, 0.4, 0.6), (0.9,)])))
    assert runs.median_evaluations_to(0.9) == 2
    assert runs.median_evaluations_to(0.95) is None
    assert runs.quartiles(3) == pytest.approx((0.75, 0.9, 0.95))


class TestRestrictions:
    def test_leave_configurations_out(self) -> None:
        table = restricted(TABLE, ["x * y <= 16", "z == 0 or y > 1"])
        assert len(table.measurements) == sum(x * y <= 16 and (z == 0 or y > 1) for x, y, z in XYZ)
        assert "satisfy" in table.notes[0]

    @pytest.mark.parametrize("text", ["x +", "w < 2", "__import__('os')", "1 < 2", "x > 100", "x.real"])
    def test_invalid_restrictions_are_rejected_in_one_line(self, text: str) -> None:
        with pytest.raises(TableError, match=r"^[^\n]+$"):
            restricted(TABLE, [text])


class TestCommand:
    def test_prints_a_table(self, run: Run) -> None:
        status, out, err = run("cache.json", "--budget", "40", "--repeats", "3", "--sampler", "random")
        assert (status, err) == (0, "")
        assert "k on A GPU" in out and "90, of which 75 ran" in out and "random" in out and "after 40" in out

    def test_json_contains_all_searches(self, run: Run) -> None:
        options = ("--budget", "30", "--repeats", "2", "--seed", "5", "--restriction", "z == 1", "--json")
        status, out, _ = run("cache.json", *options)
        document = json.loads(out)
        assert status == 0 and document["configurations"] == 30
        (summary,) = document["samplers"]
        assert summary["sampler"] == "bayes" and [s["seed"] for s in summary["searches"]] == [5, 6]
        assert all(len(s["quality"]) == 30 and s["quality"][-1] == 1.0 for s in summary["searches"])
        assert json.loads(run("cache.json", *options)[1])["samplers"][0]["searches"] == summary["searches"]

    def test_plot_draws_the_curves(self, run: Run, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        status, out, _ = run("cache.json", "--budget", "5", "--repeats", "2", "--sampler", "random", "--plot", "c.svg")
        assert status == 0 and "c.svg" in out
        assert (tmp_path / "c.svg").read_text().count("<path") > 5

    @pytest.mark.parametrize(
        ("plot", "installed", "message"),
        [
            ("c.pdf", True, "--plot needs a file name ending in .svg or .png, not c.pdf"),
            ("c.svg", False, "--plot needs matplotlib: pip install"),
        ],
    )
    def test_undrawable_plots_are_rejected_before_the_searches(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plot: str, installed: bool, message: str
    ) -> None:
        def find_spec(name: str) -> object:
            return None if name == "matplotlib" and not installed else object()

        def no_search(*_: object, **__: object) -> None:
            raise AssertionError("searched")

        monkeypatch.setattr("autosched.cli.terminal.output_files.importlib.util.find_spec", find_spec)
        monkeypatch.setattr("autosched.replay.search.searches", no_search)
        status, out, err = run("cache.json", "--plot", plot)
        assert (status, out) == (2, "") and message in err and err.count("\n") == 1
        assert not (tmp_path / plot).exists()

    def test_outputs_do_not_overwrite_inputs_or_each_other(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "loop").symlink_to("loop")
        (tmp_path / "dangling").symlink_to(tmp_path / "gone" / "x.json")
        store_of_two_templates(tmp_path / "two.db")
        (tmp_path / "out.mma.json").write_bytes((tmp_path / "cache.json").read_bytes())
        for arguments, message in (
            (("cache.json", "--to-t4", "loop"), "loop cannot be written: name a file in an existing folder"),
            (("cache.json", "--to-t4", "dangling"), "dangling cannot be written: name a file in an existing folder"),
            (
                ("cache.json", "--to-t4", "x.json", "--plot", "x.svg"),
                "--to-t4 runs no search, so there is nothing to plot",
            ),
            (
                ("two.db", "--from", "out.mma.json", "--to-t4", "out.json"),
                "out.mma.json is also an input, and would be replaced",
            ),
        ):
            status, out, err = run(*arguments)
            assert (status, out) == (2, "") and message in err and err.count("\n") == 1, arguments
        assert (tmp_path / "out.mma.json").read_bytes() == (tmp_path / "cache.json").read_bytes()

    def test_the_file_that_stdout_goes_to_stays(self, tmp_path: Path, run: Run) -> None:
        log = tmp_path / "log"
        log.write_text("kept\n")
        with log.open("a") as file:
            command = [sys.executable, "-m", "autosched", "replay", "cache.json", "--to-t4", "/dev/stdout"]
            completed = forked_python.run(
                command, cwd=tmp_path, stdout=file, stderr=subprocess.PIPE, text=True, timeout=120
            )
        assert completed.returncode == 2 and 'invalid output "/dev/stdout"' in completed.stderr
        assert log.read_text() == "kept\n"

    def test_writes_t4_that_it_reads(self, run: Run) -> None:
        assert run("cache.json", "--to-t4", "t4.json")[0] == 0
        status, out, _ = run("t4.json", "--budget", "5", "--repeats", "1", "--sampler", "random")
        assert status == 0 and "90, of which 75 ran" in out

    def test_an_output_link_is_followed(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "link.json").symlink_to("t4.json")
        assert run("cache.json", "--to-t4", "link.json")[0] == 0
        assert (tmp_path / "link.json").is_symlink() and json.loads((tmp_path / "t4.json").read_text())["results"]

    def test_writes_a_t4_file_for_each_template(self, run: Run, tmp_path: Path) -> None:
        store_of_two_templates(tmp_path / "a.db")
        (tmp_path / "t4.mma.json").write_bytes((tmp_path / "a.db").read_bytes())
        assert run("a.db", "--to-t4", "t4.json") == (
            2,
            "",
            "autosched: t4.mma.json is a database, and would be replaced: name another output file\n",
        )
        (tmp_path / "t4.mma.json").unlink()
        status, out, _ = run("a.db", "--to-t4", "t4.json", "--json")
        assert status == 0
        assert json.loads(out) == {"t4": [{"file": f"t4.{name}.json", "configurations": 2} for name in KERNELS]}
        for name, more in KERNELS.items():
            table = read_table(tmp_path / f"t4.{name}.json")
            assert [s.to_json() for s in table.measurements] == [{"x": x, **more} for x in (2, 4)]

    def test_floats_are_numbers(self, run: Run, tmp_path: Path) -> None:
        cache = json.loads((tmp_path / "cache.json").read_text())
        for entry in cache["cache"].values():
            entry["z"] = (0, 0.25, 1e-3)[entry["z"]]
        (tmp_path / "floats.json").write_text(json.dumps({**cache, "device_name": "$x^$ \ud800"}))
        restricted = ("floats.json", "--restriction", "z < 0.1 and z * 2 != 0")
        assert run(*restricted, "--to-t4", "t4.json", "--json")[0] == 0
        t4 = json.loads((tmp_path / "t4.json").read_text())
        assert {result["configuration"]["z"] for result in t4["results"]} == {1e-3}
        assert t4["metadata"] == {"kernel": "k", "device": "$x^$ \\ud800"}
        table = read_table(tmp_path / "t4.json")
        assert (table.kernel, len(table.measurements)) == ("k", 30)
        pytest.importorskip("matplotlib")
        assert run(*restricted, "--budget", "3", "--repeats", "1", "--plot", "c.svg")[0] == 0

    def test_estimates_are_reported_as_estimates(self, run: Run, tmp_path: Path) -> None:
        with Store.open(tmp_path / "a.db") as store:
            for x in (2, 4):
                seconds = 1e-6 * x
                estimate = Measurement(Status.OK, Provenance.ESTIMATED, timing=Timing.estimate(seconds))
                store.append(make_trial(Schedule("fma", (("x", x),)), estimate, Copy(8, 8)))
        for file in ("a.db", "t4.json"):
            status, out, _ = run(file, "--budget", "2", "--repeats", "1")
            assert status == 0 and "the times are ESTIMATED by a model, not measured" in out
            assert run("a.db", "--to-t4", "t4.json")[0] == 0

    def test_a_transferred_start_reports_its_origin(self, run: Run, tmp_path: Path) -> None:
        cache = json.loads((tmp_path / "cache.json").read_text())
        keys = {"tune_params_keys": ["x"], "kernel_name": "another", "device_name": "B GPU"}
        far = {str(x): {"x": x, "time": time} for x, time in ((1, 1e-300), (2, 1e18), (4, 1e-300), (64, 1.0))}
        (tmp_path / "other.json").write_text(json.dumps({**cache, **keys, "cache": far}))
        status, out, err = run("cache.json", "--from", "other.json", "--budget", "20", "--repeats", "1")
        assert (status, err) == (0, "")
        assert "bayes starts from another on B GPU, using 1 of 3 parameters" in out

    @pytest.mark.parametrize(
        "arguments",
        [
            ("none.json",),
            ("cache.json", "--sampler", "best"),
            ("cache.json", "--budget", "0"),
            ("cache.json", "--repeats", "0"),
            ("cache.json", "--batch", "0"),
            ("cache.json", "--seed", "-1"),
            ("cache.json", "--restriction", "x <"),
            ("cache.json", "--restriction", "x > 99"),
            ("cache.json", "--plot", "curves.txt"),
            ("cache.json", "--plot", "none/curves.svg"),
            ("cache.json", "--to-t4", "none/t4.json"),
            ("cache.json", "--to-t4", "."),
            ("cache.json", "--to-t4", "/dev/null"),
            ("cache.json", "--restriction", "x > 2", "--to-t4", "cache.json"),
            (),
        ],
    )
    def test_invalid_input_is_rejected_in_one_line(self, run: Run, arguments: Sequence[str]) -> None:
        status, out, err = run(*arguments)
        assert (status, out) == (2, "")
        assert err.count("\n") == 1 and err.startswith("autosched: ")


def test_the_suffix_of_a_picture_selects_its_format(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.svg or \.png"):
        draw_curves([("t", [])], tmp_path / "x")


def test_a_table_with_only_failures_is_rejected() -> None:
    with pytest.raises(TableError, match="all 1 recorded"):
        table_of("d", [Row("k", {"x": 1}, measured(1, 1, 1))])


def test_an_emptied_table_is_rejected() -> None:
    with pytest.raises(TableError):
        Table("k", "d", TABLE.parameters, {})
