"""Facts that a trial stores about a user's problem."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from store_trials import make_trial

from measurements.store.store import Store
from measurements.trials.facts import ProblemFacts
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.trial import Trial
from search_spaces.operators.row_reduction import Softmax
from search_spaces.spaces.schedule import Schedule

FACTS = ProblemFacts("hist n=64", 128.0, 512, "", {"GB/s": 3.5})


def test_facts_are_stored_and_exported_with_the_trial() -> None:
    timed = Measurement(Status.OK, Provenance.ESTIMATED, timing=Timing(1e-6, 1e-6, 1e-6, 1))
    plain = make_trial(Schedule("row_reduction", (("vector_x", 1),)), timed, Softmax(64, 64))
    one = dataclasses.replace(plain, facts=FACTS)
    assert Trial.from_json(one.to_json()) == one and len({one, dataclasses.replace(one)}) == 1
    with Store.open(":memory:") as store:
        for _ in range(2):  # store two equal trials: both must be read with their facts
            store.append(one)
        assert [r.facts for r in store.trials()] == [FACTS, FACTS]


def test_a_problem_of_a_known_operator_has_no_facts() -> None:
    assert ProblemFacts.of(Softmax(64, 64), {}, 1e-6) is None


@pytest.mark.parametrize(
    "change",
    [
        {"name": "a\nb"},
        {"flops": math.inf},
        {"flops": -1.0},
        {"min_bytes": 0},
        {"min_bytes": "many"},
        {"metrics": {"x": math.nan}},
        {"metrics": [1]},
        {"more": 1},
    ],
)
def test_invalid_facts_are_rejected(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        ProblemFacts.from_json({**dataclasses.asdict(FACTS), **change})
