"""If the database has no result, calls use a shipped recording, but only on the device that it was recorded on."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import instant_compiler
import pytest
from fake_cupy import FakeCupy

import autosched
from autosched.dispatch import functions, lookup, resolve
from autosched.dispatch.database import Database, NoSchedule
from autosched.dispatch.lookup import look_up
from autosched.dispatch.provenance import Kind
from autosched.samplers.first_choices.model_choice import DefaultChoice
from measurements.compiler.pool import CompilePool
from measurements.store.store import Store
from measurements.trials import recording
from measurements.trials.measurement import Measurement, Provenance, Status
from measurements.trials.problem_key import problem_of
from measurements.trials.recording import Recording
from measurements.trials.shipped import SHIPPED, ShippedRecordings, fastest
from measurements.trials.trial import Trial
from measurements.trials.vendor_library import LIBRARY_SCHEDULE
from search_spaces.hardware.devices import device
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Softmax

H100, H200 = device("h100"), device("h200")
FILES = sorted(recording.RECORDED.glob(f"h100/*{recording.SUFFIX}"))
RECORDED = Softmax(rows=4096, columns=8192)
NEAR = Softmax(rows=2048, columns=8192)


def recorded() -> Recording:
    entry = recording.find(RECORDED.key(), "h100")
    assert entry is not None
    return entry


@pytest.fixture
def chosen_by_the_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the time model choose the fastest recorded schedule, and predict 1 s so that neighbours are accepted."""
    winner = fastest(recorded())
    assert winner is not None

    def choice(problem: Problem, device: object, templates: object) -> DefaultChoice:
        return DefaultChoice(winner.schedule, 1.0)

    monkeypatch.setattr(lookup, "default_choice", choice)


class TestExact:
    @pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(recording.SUFFIX))
    def test_kernels_of_all_recorded_problems_are_generated(self, path: Path) -> None:
        problem = recording.read(path)[0].problem
        answer = look_up(None, problem, H100)
        provenance = answer.provenance
        assert answer.kernel is not None and answer.kernel.source
        assert (provenance.kind, provenance.tuned, provenance.own) == (Kind.EXACT, True, False)
        origin = provenance.origin
        assert origin is not None
        assert (origin.time, origin.device, origin.trial) == ("measured", "h100", None)
        assert origin.database == SHIPPED.name and origin.created and origin.autosched_version
        restored = type(provenance).from_json(provenance.to_json())
        assert restored == provenance

    def test_an_unrecorded_library_win_is_reported(self) -> None:
        first_places = {path.name: fastest(recording.read(path)[-1]) for path in FILES}
        beaten = [trial for trial in first_places.values() if trial is not None and trial.rank != 1]
        assert beaten
        for trial in beaten:
            assert "vendor's library" in look_up(None, trial.problem, H100).provenance.refused[0]

    def test_a_trial_of_the_database_is_preferred(self, store: Store) -> None:
        slowest = max((t for t in recorded().trials if t.ok), key=lambda t: t.seconds or 0.0)
        store.append(dataclasses.replace(slowest, rank=None))
        provenance = look_up(store, RECORDED, H100).provenance
        assert (provenance.schedule, provenance.own) == (slowest.schedule, True)

    def test_a_recording_is_preferred_to_a_neighbour_of_the_database(self, store: Store) -> None:
        (trial,) = (t for t in recorded().trials if t.rank == 1)
        store.append(dataclasses.replace(trial, problem_key=NEAR.key()))
        provenance = look_up(store, RECORDED, H100).provenance
        assert provenance.tuned and not provenance.own

    def test_an_exact_lookup_only_reads_the_database(self, store: Store) -> None:
        for source in (store, None):
            with pytest.raises(NoSchedule):
                look_up(source, RECORDED, H100, exact=True)


class TestNearest:
    def test_a_neighbour(self, chosen_by_the_recording: None) -> None:
        provenance = look_up(None, NEAR, H100).provenance
        assert (provenance.kind, provenance.distance, provenance.database) == (Kind.NEAREST, 1.0, "")
        assert provenance.origin is not None and provenance.origin.database == SHIPPED.name
        assert "rows 4096 instead of 2048" in provenance.warning

    def test_the_database_is_preferred_at_equal_distance(self, store: Store, chosen_by_the_recording: None) -> None:
        (trial,) = (t for t in recorded().trials if t.rank == 1)
        store.append(dataclasses.replace(trial, problem_key=Softmax(rows=1024, columns=8192).key()))
        provenance = look_up(store, NEAR, H100).provenance
        assert provenance.origin is not None
        assert (provenance.distance, provenance.origin.database) == (1.0, store.name)

    def test_the_model_replaces_a_neighbour_that_is_estimated_slow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        winner = fastest(recorded())
        assert winner is not None
        monkeypatch.setattr(lookup, "default_choice", lambda *args: DefaultChoice(winner.schedule, 1e-12))
        provenance = look_up(None, NEAR, H100).provenance
        assert (provenance.kind, provenance.origin) == (Kind.MODEL, None)
        assert provenance.refused and provenance.differences == ("rows 4096 instead of 2048",)

    def test_without_a_database_the_model_does_not_choose_far_away(self) -> None:
        with pytest.raises(NoSchedule, match="AUTOSCHED_DB"):
            look_up(None, Softmax(rows=1, columns=8192), H100)


class TestOtherDevices:
    @pytest.mark.parametrize("name", ["h200", "h100_pcie", "a100"])
    def test_other_devices_do_not_use_the_recording(self, name: str) -> None:
        with pytest.raises(NoSchedule, match="AUTOSCHED_DB"):
            look_up(None, RECORDED, device(name))

    def test_a_database_hides_shipped_trials_of_other_gpus(self, store: Store, chosen_by_the_recording: None) -> None:
        provenance = look_up(store, RECORDED, H200).provenance
        assert (provenance.kind, provenance.origin, provenance.differences) == (Kind.MODEL, None, ())


class TestChoice:
    def test_the_fastest_trial_has_the_best_rank_or_else_the_lowest_median(self) -> None:
        trials = [t for t in recorded().trials if t.ok]
        alone = tuple(dataclasses.replace(t, rank=None) for t in trials)
        quickest = min(trials, key=lambda t: t.seconds or 0.0)
        assert fastest(Recording(alone)).schedule == quickest.schedule  # type: ignore[union-attr]
        slowest = dataclasses.replace(max(trials, key=lambda t: t.seconds or 0.0), rank=2)
        library = dataclasses.replace(quickest, schedule=LIBRARY_SCHEDULE, rank=1)
        assert fastest(Recording((*alone, slowest))) == slowest
        versioned = dataclasses.replace(library, space_version=slowest.space_version)
        assert fastest(Recording((*alone, versioned, slowest))) == slowest

    def test_a_schedule_with_a_wrong_result_is_excluded(self) -> None:
        best = fastest(recorded())
        assert best is not None
        wrong = Measurement(Status.WRONG_RESULT, Provenance.MEASURED, reason="wrong")
        failed: Trial = dataclasses.replace(best, measurement=wrong, rank=None)
        trial = fastest(Recording((*recorded().trials, failed)))
        assert trial is not None and trial.schedule != best.schedule
        assert fastest(Recording((failed,))) is None


class TestBroken:
    @pytest.fixture
    def broken(self, tmp_path: Path) -> ShippedRecordings:
        """Return recordings in which RECORDED's file is truncated and a neighbouring problem's file is intact."""
        trials = tuple(dataclasses.replace(t, problem_key=NEAR.key()) for t in recorded().trials)
        recording.write(tmp_path / "near", [Recording(trials)])
        recording.install(tmp_path / "near", tmp_path)
        cut = recording.path_of(RECORDED.key(), "h100", tmp_path)
        cut.write_bytes(recording.path_of(RECORDED.key(), "h100").read_bytes()[:-200])
        return ShippedRecordings(tmp_path)

    def test_a_damaged_recording_is_skipped_with_one_line(
        self, broken: ShippedRecordings, store: Store, chosen_by_the_recording: None
    ) -> None:
        provenance = look_up(store, RECORDED, H100, shipped=broken).provenance
        assert (provenance.kind, provenance.distance) == (Kind.NEAREST, 1.0)
        (reason,) = provenance.refused
        assert "h100" in reason and "\n" not in provenance.warning

    def test_a_recording_without_a_header_is_skipped(
        self, tmp_path: Path, store: Store, chosen_by_the_recording: None
    ) -> None:
        path = recording.path_of(RECORDED.key(), "h100", tmp_path)
        path.parent.mkdir()
        for content in (b"text", b""):
            path.write_bytes(content)
            provenance = look_up(store, RECORDED, H100, shipped=ShippedRecordings(tmp_path)).provenance
            assert (provenance.kind, len(provenance.refused)) == (Kind.MODEL, 1)

    def test_headers_name_the_problems_of_an_operator(self, broken: ShippedRecordings) -> None:
        keys, unreadable = broken.problems("softmax", "h100")
        assert sorted(map(problem_of, keys), key=str) == sorted((RECORDED, NEAR), key=str) and not unreadable
        assert broken.problems("matmul", "h100") == broken.problems("softmax", "a/b") == ((), ())


class TestCalls:
    @pytest.fixture
    def cupy(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCupy]:
        fake = FakeCupy()
        fake.properties |= {"name": b"NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_017_493_504}
        monkeypatch.setitem(sys.modules, "cupy", fake)
        instant = partial(CompilePool, worker_module="instant_compiler", python_path=[instant_compiler.HERE])
        monkeypatch.setattr(resolve, "CompilePool", instant)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield fake
        functions.forget()

    def test_no_database_is_needed(self, cupy: FakeCupy, chosen_by_the_recording: None) -> None:
        """The called problem is close to the recorded problem, which is too large for the simulated GPU."""
        a, b = (cupy.zeros(shape, "float16") for shape in ((256, 1024), (1024, 512)))
        assert autosched.matmul(a, b).shape == (256, 512)
        (chosen,) = functions.chosen()
        assert chosen.kind == Kind.NEAREST
        assert chosen.origin is not None and chosen.origin.database == SHIPPED.name
        with pytest.raises(NoSchedule):
            autosched.softmax(cupy.zeros((4, 64), "float16"))

    def test_lookups_are_cached_across_processes(
        self, cupy: FakeCupy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "cache"))
        first = Database(None).kernel(RECORDED).provenance
        monkeypatch.setattr(resolve, "resolve", None)
        assert Database(None).kernel(RECORDED).provenance == first
