"""The time to a first proposal is measured for a template that can compute the problem."""

from __future__ import annotations

from benchmarks.search.first_proposals import first_proposal
from search_spaces.hardware.devices import device
from search_spaces.operators.row_reduction import Softmax


def test_the_first_proposal_of_a_small_problem() -> None:
    template, seconds = first_proposal(Softmax(64, 256), device("t4"))
    assert template == "row_reduction"
    assert seconds > 0
