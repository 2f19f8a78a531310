"""A look-up returns the exact trial, the nearest trial if the guard accepts it, or the model's choice."""

import dataclasses
import itertools
import json
from datetime import UTC, datetime
from functools import cache

import pytest

from autosched.dispatch import lookup
from autosched.dispatch.lookup import NEIGHBOUR_SLACK, NoSchedule, look_up
from autosched.dispatch.provenance import KernelProvenance, Kind
from autosched.dispatch.staleness import Environment
from autosched.samplers.first_choices.model_choice import DefaultChoice, default_choice, predicted_seconds
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.trial import Trial
from measurements.trials.vendor_library import LIBRARY_SCHEDULE
from search_spaces.catalogue import template, templates_for
from search_spaces.hardware.devices import Device, device
from search_spaces.operators.distance import (
    MAX_DOUBLINGS,
    OTHER_DEVICE,
    UNKNOWN_DEVICE,
    device_distance,
    problem_distance,
)
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Reduce, RmsNorm, Softmax
from search_spaces.spaces.schedule import Schedule

H200, H100, A100 = device("h200"), device("h100"), device("a100")
PROBLEM = Softmax(rows=64, columns=1024)
NEAR = Softmax(rows=128, columns=1024)


@cache
def samples() -> list[Schedule]:
    return template("row_reduction").space(NEAR, H200).sample(60, 3)


def predicted(problem: Problem, schedule: Schedule) -> float:
    return predicted_seconds(templates_for(problem, H200), problem, [schedule], H200)[0]


@pytest.fixture(scope="module")
def default() -> DefaultChoice:
    schedule = default_choice(PROBLEM, H200)
    assert schedule is not None
    return schedule


def make_trial(
    problem: Problem, schedule: Schedule, on: str = "h200", seconds: float = 1e-6, **changes: object
) -> Trial:
    kernel_template = template(schedule.template)
    row = next((row for row in (H200, H100, A100) if row.name == on), H200)
    trial = Trial(
        problem_key=problem.key(),
        schedule=schedule,
        device=on,
        fingerprint=json.dumps({"device": on, "sm": row.arch, "sm_count": str(row.sm_count), "cuda": "13000"}),
        template_version=kernel_template.version,
        space_version="s",
        kernel_digest=kernel_template.kernel(problem, schedule, row).digest,
        measurement=Measurement(Status.OK, Provenance.MEASURED, timing=Timing.of([seconds] * 3)),
        toolchain="nvrtc 13.0.88",
        driver="580.65",
        autosched_version="0.1.0",
        created=datetime.now(UTC),
        sampler="random",
        seed=0,
    )
    return dataclasses.replace(trial, **changes)  # type: ignore[arg-type]


class TestDistance:
    def test_a_doubled_size_has_distance_one(self) -> None:
        problem = Matmul(m=1024, n=512, k=256)
        for other, doublings in ((Matmul(512, 512, 256), 1.0), (Matmul(2048, 256, 256), 2.0), (problem, 0.0)):
            assert problem_distance(problem, other.to_json()).doublings == pytest.approx(doublings)

    def test_the_distance_is_a_metric(self) -> None:
        problems = [Matmul(m, n, 64) for m, n in itertools.product((64, 96, 1000), (8, 512))]
        apart = {(a, b): problem_distance(a, b.to_json()).doublings for a, b in itertools.product(problems, problems)}
        for a, b, c in itertools.product(problems, problems, problems):
            assert apart[a, b] == apart[b, a]
            assert (apart[a, b] == 0.0) == (a == b)
            assert apart[a, c] <= apart[a, b] + apart[b, c] + 1e-12

    @pytest.mark.parametrize(
        "other",
        [
            Matmul(64, 64, 64, a="bf16"),
            Matmul(64, 64, 64, out="f32"),
            Matmul(64, 64, 64, order_b="col"),
            Matmul(64, 64, 64, epilogue="bias"),
            Matmul(64, 64, 64, reduction="row_sum"),
            Softmax(64, 64),
        ],
    )
    def test_types_orders_and_meanings_are_never_exchanged(self, other: Problem) -> None:
        distance = problem_distance(Matmul(64, 64, 64), other.to_json())
        assert not distance.usable and distance.differences

    def test_a_reduction_of_an_axis_and_of_its_parts_are_never_exchanged(self) -> None:
        assert not problem_distance(Reduce(64, 64), Reduce(64, 64, reduction_size=8).to_json()).usable

    def test_a_different_eps_is_reported_without_distance(self) -> None:
        distance = problem_distance(RmsNorm(64, 64, eps=1e-5), RmsNorm(64, 64, eps=1e-6).to_json())
        assert distance.doublings == 0.0 and distance.differences == ("eps 1e-06 instead of 1e-05",)

    def test_only_devices_of_one_architecture_are_comparable(self) -> None:
        assert device_distance(H200, "h200", H200).doublings == 0.0
        assert OTHER_DEVICE <= device_distance(H200, "h100", H100).doublings < 1.0
        assert not device_distance(H200, "a100", A100).usable
        assert device_distance(H200, "somebody's", None).doublings == UNKNOWN_DEVICE


class TestChoice:
    def test_the_exact_trial_is_used_even_if_the_model_prefers_another(
        self, store: Store, default: DefaultChoice
    ) -> None:
        slow = max(samples(), key=lambda s: predicted(PROBLEM, s))
        store.append(make_trial(NEAR, samples()[0]))
        stored = store.append(make_trial(PROBLEM, slow, seconds=5e-6))
        answer = look_up(store, PROBLEM, H200)
        assert answer.kernel == template(slow.template).kernel(PROBLEM, slow, H200)
        provenance = answer.provenance
        assert (provenance.kind, provenance.schedule) == (Kind.EXACT, slow)
        assert provenance.tuned and provenance.warning == ""
        origin = provenance.origin
        assert origin is not None and (origin.trial, origin.seconds, origin.time) == (stored.id, 5e-6, "measured")

    def test_the_nearest_trial_is_chosen_unless_the_model_ranks_it_slower(
        self, store: Store, default: DefaultChoice
    ) -> None:
        store.append(make_trial(NEAR, default.schedule))
        store.append(make_trial(Softmax(512, 1024), samples()[0], seconds=1e-7))
        provenance = look_up(store, PROBLEM, H200).provenance
        assert (provenance.kind, provenance.schedule, provenance.distance) == (Kind.NEAREST, default.schedule, 1.0)
        assert provenance.differences == ("rows 128 instead of 64",)
        assert "the nearest tuned schedule is used; nearest trial: rows 128 instead of 64" in provenance.warning
        assert provenance.predicted_seconds == provenance.default_seconds == default.seconds

    def test_a_trial_that_the_model_ranks_slower_is_not_chosen(self, store: Store, default: DefaultChoice) -> None:
        slow = next(s for s in samples() if predicted(PROBLEM, s) > 1.5 * NEIGHBOUR_SLACK * default.seconds)
        store.append(make_trial(NEAR, slow))
        provenance = look_up(store, PROBLEM, H200).provenance
        assert (provenance.kind, provenance.schedule, provenance.origin) == (Kind.MODEL, default.schedule, None)
        assert "the time model expects it to take" in provenance.refused[0]
        assert provenance.differences == ("rows 128 instead of 64",)
        assert "the time model's choice is used" in provenance.warning

    def test_a_farther_trial_is_used_if_the_nearest_is_rejected(self, store: Store, default: DefaultChoice) -> None:
        slow = next(s for s in samples() if predicted(PROBLEM, s) > 1.5 * NEIGHBOUR_SLACK * default.seconds)
        store.append(make_trial(NEAR, slow))
        store.append(make_trial(Softmax(256, 1024), default.schedule))
        provenance = look_up(store, PROBLEM, H200).provenance
        assert (provenance.kind, provenance.distance, len(provenance.refused)) == (Kind.NEAREST, 2.0, 1)

    def test_a_distant_trial_is_not_chosen(self, store: Store, default: DefaultChoice) -> None:
        store.append(make_trial(Softmax(64 * 2 ** int(MAX_DOUBLINGS + 1), 1024), default.schedule))
        assert look_up(store, PROBLEM, H200).provenance.kind is Kind.MODEL

    def test_trials_of_another_device_of_the_same_family_are_chosen(self, store: Store, default: DefaultChoice) -> None:
        store.append(make_trial(PROBLEM, default.schedule, "h100"))
        store.append(make_trial(NEAR, default.schedule, "a100"))
        provenance = look_up(store, PROBLEM, H200).provenance
        assert (provenance.kind, provenance.differences) == (Kind.NEAREST, ("device h100 instead of h200",))

    def test_the_architecture_of_an_unknown_device_is_read_from_its_trial(
        self, store: Store, default: DefaultChoice
    ) -> None:
        ours, other = json.dumps({"sm": "sm_90a"}), json.dumps({"sm": "sm_80"})
        store.append(make_trial(NEAR, default.schedule, "theirs", fingerprint=other))
        assert look_up(store, PROBLEM, H200).provenance.kind is Kind.MODEL
        store.append(make_trial(Softmax(256, 1024), default.schedule, "mine", fingerprint=ours))
        assert look_up(store, PROBLEM, H200).provenance.differences[-1] == "device mine instead of h200"

    def test_an_empty_database(self, store: Store, default: DefaultChoice) -> None:
        provenance = look_up(store, PROBLEM, H200).provenance
        assert (provenance.kind, provenance.schedule, provenance.differences) == (Kind.MODEL, default.schedule, ())
        assert provenance.warning.endswith("the time model's choice is used; tune this problem")

    def test_an_outdated_trial_is_not_used(self, store: Store, default: DefaultChoice) -> None:
        broken = dataclasses.replace(make_trial(PROBLEM, samples()[0]), schedule=samples()[0].replace(vector_x=7))
        store.append(broken)
        provenance = look_up(store, PROBLEM, H200).provenance
        assert provenance.kind is Kind.MODEL and "older version" in provenance.refused[0]
        assert "older version" in provenance.warning

    def test_a_trial_that_cannot_be_compiled_is_not_chosen(self, store: Store, default: DefaultChoice) -> None:
        store.append(make_trial(PROBLEM, samples()[0]))
        bad = template("row_reduction").kernel(PROBLEM, samples()[0], H200).digest
        answer = look_up(store, PROBLEM, H200, usable=lambda kernel: "no room" if kernel.digest == bad else None)
        assert answer.provenance.refused == ("its best schedule cannot be used any more (no room)",)
        with pytest.raises(NoSchedule, match="the model's choice cannot be used: no room"):
            look_up(store, PROBLEM, H200, usable=lambda kernel: "no room")

    def test_only_the_exact_problem_on_request(self, store: Store, default: DefaultChoice) -> None:
        with pytest.raises(NoSchedule, match="no trial of softmax"):
            look_up(store, PROBLEM, H200, exact=True)
        store.append(make_trial(NEAR, default.schedule))
        with pytest.raises(NoSchedule, match="rows 128 instead of 64"):
            look_up(store, PROBLEM, H200, exact=True)
        store.append(make_trial(PROBLEM, samples()[0]))
        assert look_up(store, PROBLEM, H200, exact=True).provenance.kind is Kind.EXACT

    def test_the_nearest_are_tried_and_no_more(
        self, store: Store, default: DefaultChoice, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lookup, "MOST_TRIED", 2)
        slow = next(s for s in samples() if predicted(PROBLEM, s) > 1.5 * NEIGHBOUR_SLACK * default.seconds)
        for rows in (128, 256):
            store.append(make_trial(Softmax(rows, 1024), slow))
        store.append(make_trial(Softmax(512, 1024), default.schedule))
        assert look_up(store, PROBLEM, H200).provenance.kind is Kind.MODEL


class TestLibrary:
    PROBLEM = Matmul(64, 64, 64)

    def won(self, problem: Problem) -> Trial:
        trial = make_trial(NEAR, samples()[0])
        return dataclasses.replace(
            trial, problem_key=problem.key(), schedule=LIBRARY_SCHEDULE, kernel_digest=None, toolchain="cublas 13.2.0"
        )

    def test_the_library_is_chosen_if_it_won(self, store: Store) -> None:
        store.append(self.won(self.PROBLEM))
        answer = look_up(store, self.PROBLEM, H200, library=lambda problem: "cublas 13.2.0")
        provenance = answer.provenance
        assert (answer.kernel, provenance.kind) == (None, "library")
        assert provenance.tuned and (provenance.stale, provenance.warning) == ((), "")
        assert look_up(store, self.PROBLEM, H200, library=lambda problem: "cublas 14.0.0").provenance.stale == (
            "library cublas 13.2.0 to cublas 14.0.0",
        )

    def test_the_library_is_chosen_if_it_won_the_nearest_problem(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lookup, "default_choice", lambda *_: DefaultChoice(samples()[0], 1e-6))
        store.append(self.won(Matmul(128, 64, 64)))
        provenance = look_up(store, self.PROBLEM, H200).provenance
        assert (provenance.kind, provenance.distance) == (Kind.LIBRARY, 1.0)
        assert "the vendor's library is used" in provenance.warning

    def test_a_missing_library_is_not_chosen(self, store: Store) -> None:
        def missing(problem: Problem) -> str:
            raise ValueError("cuBLAS was not found")

        store.append(self.won(self.PROBLEM))
        with pytest.raises(NoSchedule, match="cuBLAS was not found"):
            look_up(store, self.PROBLEM, H200, library=missing, exact=True)


class TestStale:
    HERE = Environment("nvrtc 13.0.88", "580.65", "13000")

    def stale(self, store: Store, here: Environment, on: Device = H200, **changes: object) -> tuple[str, ...]:
        store.append(make_trial(PROBLEM, samples()[0], **changes))
        return look_up(store, PROBLEM, on, here).provenance.stale

    def test_an_unchanged_environment_is_not_stale(self, store: Store) -> None:
        assert self.stale(store, self.HERE) == ()

    def test_an_unknown_environment_is_not_stale(self, store: Store) -> None:
        assert self.stale(store, Environment()) == ()

    @pytest.mark.parametrize(
        ("here", "changes", "message"),
        [
            (Environment("nvrtc 13.5.37", "580.65", "13000"), {}, "compiler nvrtc 13.0.88 to nvrtc 13.5.37"),
            (Environment("nvrtc 13.0.88", "590.1", "13000"), {}, "driver 580.65 to 590.1"),
            (Environment("nvrtc 13.0.88", "580.65", "13010"), {}, "CUDA 13000 to 13010"),
            (HERE, {"kernel_digest": "other"}, "the kernel's code (timed by autosched 0.1.0)"),
        ],
    )
    def test_a_changed_environment_is_stale(
        self, store: Store, here: Environment, changes: dict[str, object], message: str
    ) -> None:
        assert self.stale(store, here, **changes) == (message,)

    def test_a_partition_of_the_gpu_is_stale(self, store: Store) -> None:
        partition = dataclasses.replace(H200, sm_count=60)
        assert self.stale(store, self.HERE, partition) == ("SMs 132 to 60",)

    def test_the_template_of_a_neighbour(self, store: Store, default: DefaultChoice) -> None:
        store.append(make_trial(NEAR, default.schedule, template_version="other"))
        assert look_up(store, PROBLEM, H200, self.HERE).provenance.stale == ("the template row_reduction",)


def test_the_default_choice_is_deterministic(default: DefaultChoice) -> None:
    assert default_choice(PROBLEM, H200) == default
    assert default.seconds == predicted(PROBLEM, default.schedule)
    better = [s for s in samples() if predicted(PROBLEM, s) < default.seconds]
    assert len(better) < len(samples()) / 10


def test_provenance_as_json_and_back(store: Store, default: DefaultChoice) -> None:
    store.append(make_trial(NEAR, default.schedule, driver="1"))
    for provenance in (
        look_up(store, PROBLEM, H200, Environment(driver="2")).provenance,
        look_up(store, Softmax(8, 8), H200).provenance,
    ):
        assert KernelProvenance.from_json(json.loads(json.dumps(provenance.to_json()))) == provenance
