"""The contract of samplers, as a class of tests that every sampler must pass.

from autosched.testing import SAMPLER_SPACES, SamplerContract

@pytest.mark.parametrize("space", SAMPLER_SPACES.values(), ids=SAMPLER_SPACES)
@pytest.mark.parametrize("make", [lambda space, seed: MySampler(space, seed)])
class TestMySampler(SamplerContract):
    pass
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from autosched.samplers.base import Sampler
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from search_spaces.spaces.parameters import categorical, ordinal
from search_spaces.spaces.rules import Rule
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace
from search_spaces.spaces.space import Space
from search_spaces.spaces.union_space import UnionSpace

Make = Callable[[SearchSpace, int], Sampler]  # returns a new sampler for a space and a seed


def toy(size: int = 8) -> Space:
    """Return a space of ``size`` x ``size`` x 3 combinations with two rules."""
    numbers = tuple(2**i for i in range(size))
    return Space(
        "toy",
        (ordinal("x", numbers), ordinal("y", numbers), categorical("letter", ("a", "b", "c"))),
        (),
        (
            Rule("order", lambda x, y: x <= y, "{x} is more than {y}"),
            Rule("no_small_c", lambda x, letter: (x > 2) | (letter != "c"), "c needs more than {x}"),
        ),
    )


TOY = toy()
FLAT = Space(
    "flat",
    (ordinal("x", tuple(2**i for i in range(6))), ordinal("depth", (1, 2, 3, 4)), categorical("letter", ("b", "z"))),
    (),
    (Rule("depth", lambda x, depth: x >= depth, "{depth} is more than {x}"),),
    stratified_by="letter",
)
BOTH = UnionSpace([TOY, FLAT])
SAMPLER_SPACES: dict[str, SearchSpace] = {"one template": TOY, "two templates": BOTH}


def everything(space: SearchSpace) -> frozenset[str]:
    """Return the keys of all legal schedules of a small space."""
    return frozenset(s.key() for s in space.sample(10**6, 0))


def seconds(schedule: Schedule) -> float:
    """Return an artificial time for a schedule. The minimum is 1 us at x = 8, y = 32, letter b.

    A schedule of ``flat`` with depth 4 takes as long as a schedule of ``toy`` with y = 32. Smaller depths take longer.
    """
    if schedule.template == "flat":
        same = Schedule("toy", (("x", schedule["x"]), ("y", 32), ("letter", schedule["letter"])))
        return seconds(same) * 1.2 ** (4 - schedule.integer("depth"))
    distance = abs(math.log2(schedule.integer("x")) - 3) + abs(math.log2(schedule.integer("y")) - 5)
    return float(1e-6 * 1.5 ** (distance + (schedule["letter"] != "b")))


def ok(time: float) -> Measurement:
    """Return a successful measurement of ``time`` seconds."""
    return Measurement(Status.OK, Provenance.MEASURED, timing=Timing(time, time, time, 10))


def failed() -> Measurement:
    """Return a measurement that failed."""
    return Measurement(Status.TIMEOUT, Provenance.MEASURED, reason="too slow")


def outcome(schedule: Schedule) -> Measurement:
    """Return an artificial result. Some schedules fail."""
    return failed() if (schedule["x"], schedule["letter"]) in ((4, "a"), (16, "c")) else ok(seconds(schedule))


def run(sampler: Sampler, rounds: int, n: int = 5) -> list[Schedule]:
    """Ask a sampler for ``n`` proposals per round, report their results to it, and return all proposals."""
    proposals: list[Schedule] = []
    for _ in range(rounds):
        batch = sampler.ask(n)
        proposals += batch
        for schedule in batch:
            sampler.tell(schedule, outcome(schedule))
    return proposals


_proposed: dict[tuple[Make, int], list[Schedule]] = {}


def proposed(make: Make, space: SearchSpace) -> list[Schedule]:
    """Return the proposals of a sampler with seed 5 in eight rounds of five. The result is cached for all tests."""
    key = make, id(space)
    if key not in _proposed:
        _proposed[key] = run(make(space, 5), 8)
    return _proposed[key]


class SamplerContract:
    """Contract of a sampler. Tests inherit from it, and are parametrized over ``make`` and ``space``."""

    def test_proposals_are_legal_and_never_repeated(self, make: Make, space: SearchSpace) -> None:
        """Check that 40 proposals are legal and different."""
        proposals = proposed(make, space)
        assert len(proposals) == 40
        assert all(s in space for s in proposals)
        assert len({s.key() for s in proposals}) == 40

    def test_parameters_keep_the_order_of_the_space(self, make: Make, space: SearchSpace) -> None:
        """Check the order of parameters in proposals."""
        for schedule in proposed(make, space):
            assert list(schedule) == [p.name for p in space.members[schedule.template].parameters]

    def test_pending_proposals_are_not_repeated(self, make: Make, space: SearchSpace) -> None:
        """Check that pending schedules are not proposed again."""
        sampler = make(space, 4)
        proposals = [*sampler.ask(7), *sampler.ask(7), *sampler.ask(7)]
        assert len({s.key() for s in proposals}) == 21

    def test_the_same_seed_gives_the_same_proposals(self, make: Make, space: SearchSpace) -> None:
        """Check that equal seeds and results give equal proposals."""
        assert run(make(space, 5), 8) == proposed(make, space)

    def test_another_seed_gives_other_proposals(self, make: Make, space: SearchSpace) -> None:
        """Check that different seeds give different proposals."""
        assert proposed(make, space)[:15] != run(make(space, 6), 3)

    def test_the_global_generator_is_not_used(self, make: Make, space: SearchSpace) -> None:
        """Check that NumPy's global random generator is not used."""
        expected = proposed(make, space)[:20]
        np.random.seed(1)
        assert run(make(space, 5), 4) == expected
        drawn = np.random.random()
        np.random.seed(1)
        assert np.random.random() == drawn

    def test_every_schedule_is_proposed_once(self, make: Make, space: SearchSpace) -> None:
        """Check that a sampler proposes every schedule of a space once."""
        sampler = make(space, 7)
        keys: list[str] = []
        while batch := sampler.ask(16):
            assert len(batch) == min(16, len(everything(space)) - len(keys))
            for schedule in batch:
                sampler.tell(schedule, outcome(schedule))
            keys += [s.key() for s in batch]
        assert len(keys) == len(everything(space))
        assert set(keys) == everything(space)
        assert sampler.ask(16) == []

    def test_a_restored_sampler_proposes_no_reported_schedule(self, make: Make, space: SearchSpace) -> None:
        """Check that a restored sampler does not repeat earlier trials."""
        reported = proposed(make, space)[:30]
        restored = make(space, 5)
        for schedule in reported:
            restored.tell(schedule, outcome(schedule))
        more = run(restored, 4)
        assert len(more) == 20
        assert not {s.key() for s in reported} & {s.key() for s in more}

    def test_restoring_from_the_same_trials_gives_the_same_proposals(self, make: Make, space: SearchSpace) -> None:
        """Check that restoring is deterministic."""
        reported = proposed(make, space)[:30]
        proposals = []
        for _ in range(2):
            restored = make(space, 5)
            for schedule in reported:
                restored.tell(schedule, outcome(schedule))
            proposals.append(run(restored, 3))
        assert proposals[0] == proposals[1]

    def test_results_may_be_reported_in_any_order_and_repeatedly(self, make: Make, space: SearchSpace) -> None:
        """Check that results may be reported in any order, and repeatedly."""
        sampler = make(space, 9)
        batch = sampler.ask(12)
        for schedule in reversed(batch):
            sampler.tell(schedule, outcome(schedule))
        for schedule in batch[:4]:
            sampler.tell(schedule, outcome(schedule))
        assert not {s.key() for s in sampler.ask(12)} & {s.key() for s in batch}

    def test_results_of_schedules_that_were_not_proposed_are_accepted(self, make: Make, space: SearchSpace) -> None:
        """Check that a sampler accepts results of schedules that it did not propose."""
        sampler = make(space, 10)
        unproposed = space.sample(30, 99)
        for schedule in unproposed:
            sampler.tell(schedule, outcome(schedule))
        assert not {s.key() for s in run(sampler, 3)} & {s.key() for s in unproposed}

    def test_failures_do_not_stop_a_sampler(self, make: Make, space: SearchSpace) -> None:
        """Check that a search in which all trials fail covers the space."""
        sampler = make(space, 11)
        total = 0
        while batch := sampler.ask(20):
            for schedule in batch:
                sampler.tell(schedule, failed())
            total += len(batch)
        assert total == len(everything(space))

    def test_counts(self, make: Make, space: SearchSpace) -> None:
        """Check that ``ask`` accepts the count 0 and rejects -1."""
        assert make(space, 1).ask(0) == []
        with pytest.raises(ValueError, match="cannot ask for -1"):
            make(space, 1).ask(-1)

    def test_a_sampler_has_a_name(self, make: Make, space: SearchSpace) -> None:
        """Check that the sampler's name is one line."""
        name = make(space, 1).name
        assert name and name == name.strip() and "\n" not in name

    def test_nothing_is_printed(self, make: Make, space: SearchSpace, capfd: pytest.CaptureFixture[str]) -> None:
        """Check that nothing is written to stdout and stderr."""
        run(make(space, 2), 4)
        assert capfd.readouterr() == ("", "")
