"""Winners of other problems: measured trials with the same types on the same GPU architecture, nearest first."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from autosched.tuning.near_winners import near_winners
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.problem_key import problem_of
from measurements.trials.shipped import SHIPPED, ShippedRecordings
from measurements.trials.trial import Trial
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.row_reduction import Softmax
from search_spaces.spaces.schedule import Schedule

H100 = device("h100")
PROBLEM = Softmax(256, 1024)


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open("sqlite://") as opened:
        yield opened


def _trial(
    problem: Softmax, schedule: Schedule, on: str, seconds: float, provenance: Provenance = Provenance.MEASURED
) -> Trial:
    return Trial(
        problem_key=problem.key(),
        schedule=schedule,
        device=on,
        fingerprint="{}",
        template_version="t",
        space_version="s",
        kernel_digest=f"{schedule.key()}",
        measurement=Measurement(Status.OK, provenance, timing=Timing.of([seconds] * 3)),
        toolchain="nvrtc 13.0.88",
        driver="580.65",
        autosched_version="0.1.0",
        created=datetime.now(UTC),
        sampler="random",
        seed=0,
    )


def test_the_fastest_of_each_near_problem_the_nearest_first(store: Store, tmp_path: Path) -> None:
    schedules = templates_for(PROBLEM, H100).space(PROBLEM, H100).sample(8, 0)
    for trial in (
        _trial(Softmax(256, 8192), schedules[0], "h100", 1e-6),
        _trial(Softmax(256, 2048), schedules[1], "h100", 2e-6),
        _trial(Softmax(256, 2048), schedules[2], "h100", 1e-6),
        _trial(Softmax(256, 2048), schedules[3], "h200", 1e-6),
        _trial(Softmax(256, 2048), schedules[4], "a100", 1e-6),
        _trial(Softmax(256, 512, dtype="bf16"), schedules[5], "h100", 1e-6),
        _trial(Softmax(256, 512), schedules[6], "h100", 1e-6, Provenance.ESTIMATED),
    ):
        store.append(trial)
    winners = near_winners(PROBLEM, H100, store, ShippedRecordings(tmp_path))
    assert winners[0] == schedules[2]
    assert set(winners) == {schedules[i] for i in (0, 2, 3)}


def test_shipped_recordings_are_used(store: Store) -> None:
    problem = Matmul(4096, 6144, 2048, a="bf16")
    winners = near_winners(problem, device("h200"), store)
    assert winners
    shipped = [trial.schedule for key in _keys() if (trial := SHIPPED.best(key, "h100")) is not None]
    assert set(winners) <= set(shipped)


def _keys() -> list[Matmul]:
    keys, _ = SHIPPED.problems("matmul", "h100")
    return [problem for problem in map(problem_of, keys) if isinstance(problem, Matmul)]
