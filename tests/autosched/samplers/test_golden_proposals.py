"""proposals.json, next to this file, has the first proposals of every sampler for fixed seeds.

``pytest tests/autosched/samplers/test_golden_proposals.py --update-golden`` accepts the present proposals. Proposals
are stored as checksums of value indices, which do not change if parameters are renamed. The proposals depend on the
versions of numerical libraries, which the file lists.
"""

import importlib
import json
import math
import zlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import pytest
from cases import representative
from observed import QUICK, observations, seconds

from autosched.samplers import Sampler, sampler
from autosched.samplers.first_choices.model_choice import default_choice
from autosched.samplers.transfer import TransferredTimes
from autosched.testing.samplers import ok
from cost_models.estimates import AnalyticEstimates
from cost_models.trees import training
from cost_models.trees.trained_model import TrainedModel
from cost_models.trees.training import train
from measurements.trials import recording
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import device
from search_spaces.operators.copy import Copy
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Softmax
from search_spaces.operators.transpose import Transpose
from search_spaces.spaces.recorded_space import recorded_union
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace

GOLDEN = Path(__file__).with_name("proposals.json")
H100 = device("h100")
PROBLEMS: dict[str, Problem] = {
    "matmul": Matmul(m=2048, n=2048, k=2048, a="f16", b="f16", out="f16", order_a="col", order_b="col"),
    "softmax": Softmax(rows=4096, columns=8192, dtype="f16", out="f16"),
    "transpose": Transpose(rows=8192, columns=8192, dtype="u16"),
}
LIBRARIES = ("numpy", "scipy", "optuna", "xgboost")
TRIALS, AT_A_TIME = 40, 4
GUIDED = ("bayes", "evolution", "model")


@cache
def space_of(name: str) -> SearchSpace:
    problem = PROBLEMS[name]
    return templates_for(problem, H100).space(problem, H100)


@cache
def estimates_of(name: str) -> AnalyticEstimates:
    problem = PROBLEMS[name]
    return AnalyticEstimates(problem, templates_for(problem, H100), H100)


def checksum(space: SearchSpace, schedule: Schedule) -> str:
    names = list(space.members)
    parameters = space.members[schedule.template].parameters
    codes = [names.index(schedule.template), *(p.code(schedule[p.name]) for p in parameters)]
    return f"{zlib.crc32(json.dumps(codes).encode()):08x}"


def result_of(name: str, schedule: Schedule) -> Measurement:
    """Return the schedule's estimate with noise derived from its checksum. One in nine schedules fails."""
    noise = int(checksum(space_of(name), schedule), 16)
    log_seconds = float(estimates_of(name).log_seconds([schedule])[0])
    if noise % 9 == 0 or not math.isfinite(log_seconds):
        return Measurement(Status.LAUNCH_ERROR, Provenance.ESTIMATED, reason="does not run")
    noisy = math.exp(log_seconds) * (1 + 0.5 * (noise % 1000) / 1000)
    return Measurement(Status.OK, Provenance.ESTIMATED, timing=Timing.estimate(noisy))


def proposals(tested_sampler: Sampler, space: SearchSpace, results: Callable[[Schedule], Measurement]) -> list[str]:
    """Return the checksums of proposals. Results are reported one batch late, so that some proposals are pending."""
    checksums: list[str] = []
    pending: list[Schedule] = []
    while len(checksums) < TRIALS:
        batch = tested_sampler.ask(AT_A_TIME)
        if not batch:
            break
        checksums += [checksum(space, schedule) for schedule in batch]
        for schedule in pending:
            tested_sampler.tell(schedule, results(schedule))
        pending = batch
    return checksums


def of_whole_space(name: str, how: str, *, guided: bool) -> list[str]:
    space = space_of(name)
    tested_sampler = sampler(how, space, seed=7, estimates=estimates_of(name) if guided else None)
    return proposals(tested_sampler, space, lambda schedule: result_of(name, schedule))


def of_recorded_space(name: str, how: str, *, transferred: bool) -> list[str]:
    """Return the proposals in a recorded space. If ``transferred``, the prior knows every third recorded time."""
    problem = PROBLEMS[name]
    recorded = recording.find(problem.key(), "h100")
    assert recorded is not None
    results = {trial.schedule: trial.measurement for trial in recorded.trials}
    space = recorded_union(templates_for(problem, H100).space(problem, H100), tuple(results))
    known = dict(list(results.items())[::3])
    estimates = TransferredTimes(space, known).estimates if transferred else estimates_of(name)
    return proposals(sampler(how, space, seed=3, estimates=estimates), space, results.__getitem__)


def of_trained_model(how: str) -> list[str]:
    """Return the proposals for a copy kernel, with a prior trained on times of other copy problems."""
    problem, h200 = Copy(3000, 5000), device("h200")
    templates = templates_for(problem, h200)
    space = templates.space(problem, h200)
    model = TrainedModel(train([observations(Copy(2048, 2048)), observations(Copy(9000, 300))]), "measured", "1.0")
    tested_sampler = sampler(
        how, space, seed=5, estimates=AnalyticEstimates(problem, templates, h200).corrected(model.of(problem).predict)
    )
    return proposals(tested_sampler, space, lambda schedule: ok(float(seconds(problem, "h200", [schedule])[0])))


def default_of(name: str) -> list[str]:
    choice = default_choice(PROBLEMS[name], H100)
    assert choice is not None
    return [checksum(space_of(name), choice.schedule), f"{choice.seconds:.9e}"]


OF_PROPOSALS = {
    **{
        f"{name}, {how}": partial(of_whole_space, name, how, guided=False)
        for name in PROBLEMS
        for how in ("bayes", "evolution", "random", "tpe")
    },
    **{
        f"{name}, {how} with estimates": partial(of_whole_space, name, how, guided=True)
        for name in PROBLEMS
        for how in GUIDED
    },
    **{
        f"recorded matmul, {how}": partial(of_recorded_space, "matmul", how, transferred=False)
        for how in (*GUIDED, "random", "tpe")
    },
    **{
        f"recorded transpose, {how} transferred": partial(of_recorded_space, "transpose", how, transferred=True)
        for how in GUIDED
    },
    **{f"copy, {how} with a trained model": partial(of_trained_model, how) for how in GUIDED},
    **{f"{name}, default choice": partial(default_of, name) for name in PROBLEMS},
}


@pytest.mark.parametrize(
    "case", representative(OF_PROPOSALS, "matmul, bayes", "matmul, tpe", "recorded transpose", "copy, bayes")
)
def test_the_first_proposals_equal_the_golden_file(case: str, request: pytest.FixtureRequest) -> None:
    stored = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {"versions": {}, "proposals": {}}
    versions = {library: importlib.import_module(library).__version__ for library in LIBRARIES}
    update = request.config.getoption("--update-golden")
    if versions != stored["versions"] and not update:
        pytest.skip(f"proposals are stored for {stored['versions']}")
    actual = " ".join(OF_PROPOSALS[case]())
    if update:
        stored = {"versions": versions, "proposals": stored["proposals"] | {case: actual}}
        GOLDEN.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
    assert actual == stored["proposals"][case]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "TRAINING", QUICK)
