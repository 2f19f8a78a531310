"""A timing policy can be printed and stored in fingerprints, even if fields are missing."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from measurements.trials.policy import CACHES, DEFAULT, LAUNCHES, MOST_MHZ, Policy, described
from measurements.trials.runner_info import RunnerInfo

POLICIES = st.builds(Policy, st.sampled_from(CACHES), st.sampled_from(LAUNCHES), st.none() | st.integers(1, MOST_MHZ))


@given(POLICIES)
def test_policies_round_trip_as_text(policy: Policy) -> None:
    assert Policy.of(str(policy)) == policy
    fields = {"cache": policy.cache, "launch": policy.launch, "clocks": policy.clocks}
    assert RunnerInfo.of(json.dumps(fields)).policy == policy


@pytest.mark.parametrize("text", ["", "cold", "cold graph 0 MHz", "cold graph free ", "cold graph 99999 MHz"])
def test_another_text_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"MHz|invalid policy"):
        Policy.of(text)


@pytest.mark.parametrize(
    "wrong", [("hot",), ("cold", "stream"), ("cold", "graph", 0), ("cold", "graph", 1.5), ("cold", "graph", True)]
)
def test_another_policy_is_rejected(wrong: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match=r"invalid policy|a locked clock"):
        Policy(*wrong)  # type: ignore[arg-type]


def test_unstated_policy_fields_have_defaults() -> None:
    assert str(RunnerInfo.of("{}").policy) == DEFAULT == str(Policy())
    assert str(RunnerInfo.of('{"cache": "warm"}').policy) == "warm graph free"
    assert described(Policy("warm", "eager", 1410)) == "in a warm L2, launched one by one, at 1410 MHz"
    assert described(Policy()) == "from a cold L2"
