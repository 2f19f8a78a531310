"""If times come from the time model, ``tune`` searches the model's estimates directly, unless trials are requested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from needs import needs_nvrtc

import autosched
from autosched.samplers import DEFAULT, MODEL
from autosched.tuning.backends import BackendOptions, choose
from autosched.tuning.loop import UNPROMISING
from autosched.tuning.options import MODEL_TRIALS
from autosched.user_kernels.user_kernel import KernelSpec

VECTOR_ADD = Path(__file__).parents[3] / "examples" / "vector_add" / "vector_add.toml"
PROBLEM = autosched.Transpose(rows=4096, columns=4096)

pytestmark = needs_nvrtc


def tuned(folder: Path, **options: Any) -> Any:
    return autosched.tune(PROBLEM, database=folder / "a.db", device="h100", backend="estimate", **options)


@pytest.fixture(scope="module")
def direct(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("direct")
    return folder, tuned(folder, verification_seconds=60)


def test_a_direct_search_compiles_the_models_best_and_verifies_the_winner(direct: tuple[Path, Any]) -> None:
    _, result = direct
    assert result.satisfied and UNPROMISING <= len(result.trials) < MODEL_TRIALS
    assert result.sampler == MODEL and {trial.sampler for trial in result.trials} == {MODEL}
    assert result.num_guessed > 1000 and 1 <= result.num_verified < len(result.trials)
    assert result.verification.startswith("ok")
    assert len({trial.schedule for trial in result.trials}) == len(result.trials)


def test_another_run_tries_other_schedules_and_keeps_the_best(direct: tuple[Path, Any]) -> None:
    folder, first = direct
    second = tuned(folder)
    assert second.earlier == len(first.trials) and second.satisfied
    assert not {t.schedule for t in first.trials} & {t.schedule for t in second.trials}
    assert second.best.id == first.best.id


def test_the_same_seed_tries_the_same(direct: tuple[Path, Any], tmp_path: Path) -> None:
    again = tuned(tmp_path, verify=False)
    assert [t.schedule for t in again.trials] == [t.schedule for t in direct[1].trials]


def test_a_direct_search_is_at_least_as_good_as_the_sampler(direct: tuple[Path, Any], tmp_path: Path) -> None:
    trials = tuned(tmp_path, trials=8, verify=False)
    assert len(trials.trials) == 8 and trials.sampler == DEFAULT and trials.num_guessed == 0
    assert direct[1].best.seconds <= 1.001 * trials.best.seconds  # a tie within 0.1% is accepted


@pytest.mark.parametrize("options", [{"sampler": "random"}, {"effort": "model"}, {"objective": "registers"}])
def test_another_search_method_can_be_requested(options: dict[str, Any], tmp_path: Path) -> None:
    result = tuned(tmp_path, verify=False, seconds=0.01, **options)
    assert result.sampler != MODEL and not result.num_guessed


def test_only_problems_with_counts_are_searched_by_the_model_alone() -> None:
    counted = KernelSpec.from_file(VECTOR_ADD).problem(n=1000)
    for problem, expected in ((PROBLEM, True), (counted, False)):
        with choose(problem, BackendOptions(backend="estimate", device="h100")) as chosen:
            assert chosen.model_alone is expected
