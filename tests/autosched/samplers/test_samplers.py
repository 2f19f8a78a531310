"""The tests of the class SamplerContract pass for every sampler. Other tests are for single samplers."""

import math
from collections import Counter

import numpy as np
import pytest
from hash_seeds import printed
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_searches import CASES, HILL, hill_seconds

from autosched.samplers import sampler, samplers
from autosched.samplers.base import UnvisitedPool
from autosched.testing import SamplerContract
from autosched.testing.samplers import TOY, Make, everything, failed, ok, outcome, run, toy
from search_spaces.spaces.parameters import ordinal
from search_spaces.spaces.rules import Rule
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace
from search_spaces.spaces.space import EmptySpace, Space
from search_spaces.spaces.union_space import UnionSpace

# Searches of a union of templates are slow.
AT_NIGHT = ("tpe_of_a_union", "evolution_of_a_union")
MAKERS = [
    pytest.param(*case, marks=[pytest.mark.nightly] if name in AT_NIGHT else [], id=name)
    for name, case in CASES.items()
]


@pytest.mark.parametrize(("make", "space"), MAKERS)
class TestContract(SamplerContract):
    def test_the_name_is_known(self, make: Make, space: SearchSpace) -> None:
        assert make(space, 1).name in samplers()

    @settings(max_examples=3)
    @given(data=st.data())
    def test_any_sequence_of_calls(self, make: Make, space: SearchSpace, data: st.DataObject) -> None:
        sampler = make(space, data.draw(st.integers(0, 2**31 - 1)))
        proposed: set[str] = set()
        waiting: list[Schedule] = []
        for _ in range(data.draw(st.integers(1, 6))):
            batch = sampler.ask(data.draw(st.integers(0, 30)))
            keys = {s.key() for s in batch}
            assert len(keys) == len(batch)
            assert keys <= everything(space)
            assert not keys & proposed
            proposed |= keys
            waiting += batch
            for _ in range(data.draw(st.integers(0, len(waiting)))):
                schedule = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
                sampler.tell(schedule, data.draw(st.sampled_from([failed(), ok(1e-6), ok(3e-5)])))


LAKE = Space(  # as many schedules as HILL, all of them slow
    "lake", tuple(ordinal(name, tuple(range(1, 13))) for name in "ab"), ()
)


@pytest.mark.parametrize("name", ["tpe", "evolution"])
def test_a_search_of_a_union_finds_the_template_and_the_schedule(name: str) -> None:
    """A random sample contains each template equally often, but a learning sampler prefers the better template."""

    def search_union(name: str, seed: int) -> tuple[float, int]:
        tested_sampler, best, on_the_hill = sampler(name, UnionSpace([LAKE, HILL]), seed=seed), math.inf, 0
        for _ in range(8):
            for schedule in tested_sampler.ask(8):
                time = 2e-4 if schedule.template == "lake" else hill_seconds(schedule)
                best, on_the_hill = min(best, time), on_the_hill + (schedule.template == "hill")
                tested_sampler.tell(schedule, ok(time))
        return best, on_the_hill

    best, on_the_hill = np.median([search_union(name, seed) for seed in range(3)], axis=0)
    chance, half = np.median([search_union("random", seed) for seed in range(3)], axis=0)
    assert half == 32
    assert on_the_hill > 40
    assert best < 0.6 * chance


@pytest.mark.parametrize("name", samplers())
def test_equal_decisions_in_two_templates_are_two_schedules(name: str) -> None:
    twins = UnionSpace([Space(template, TOY.parameters[:2]) for template in ("one", "two")])
    tested_sampler = sampler(name, twins, seed=1)
    proposed = []
    while batch := tested_sampler.ask(16):
        for schedule in batch:
            tested_sampler.tell(schedule, ok(1e-6 * schedule.integer("x")))
        proposed += batch
    assert Counter(s.template for s in proposed) == {"one": 64, "two": 64}
    assert len({s.items for s in proposed}) == 64


class TestRandom:
    def test_every_schedule_is_equally_likely_to_come_first(self) -> None:
        small = toy(3)
        total = small.count()
        first = Counter(sampler("random", small, seed=seed).ask(1)[0].key() for seed in range(150 * total))
        assert len(first) == total
        expected = 150.0
        chi_squared = sum((count - expected) ** 2 / expected for count in first.values())
        assert chi_squared < total + 6 * math.sqrt(2 * total)

    def test_a_restored_run_continues_identically(self) -> None:
        uninterrupted = run(sampler("random", TOY, seed=3), 10)
        restored = sampler("random", TOY, seed=3)
        for schedule in uninterrupted[:20]:
            restored.tell(schedule, outcome(schedule))
        assert run(restored, 6) == uninterrupted[20:]

    def test_schedules_are_drawn_beyond_the_first_batch(self) -> None:
        large = toy(30)
        unseen = UnvisitedPool(large, 1)
        keys = [s.key() for _ in range(10) for s in unseen.draw(100)]
        assert len(set(keys)) == 1000


def test_unknown_names_and_invalid_seeds_are_rejected_in_one_line() -> None:
    with pytest.raises(ValueError, match="unknown sampler 'genetic': use one of bayes, evolution, model, random, tpe"):
        sampler("genetic", TOY, seed=0)
    for seed in (-1, 2**31, True, 1.5):
        with pytest.raises(ValueError, match="the seed must be an integer"):
            sampler("random", TOY, seed=seed)  # type: ignore[arg-type]


def test_an_empty_space_is_reported_with_its_rule() -> None:
    nothing = Space("toy", TOY.parameters, (), (Rule("never", lambda x: x < 0, "never"),))
    with pytest.raises(EmptySpace, match="never"):
        sampler("random", nothing, seed=0).ask(1)


def test_proposals_do_not_depend_on_the_hash_seed() -> None:
    """The order of a set of strings differs between processes. Proposals must not depend on this order."""
    code = """
from autosched.samplers import sampler
from measurements.trials.measurement import Measurement, Provenance, Timing, Status
from search_spaces.spaces.parameters import categorical, ordinal
from search_spaces.spaces.space import Space
space = Space("toy", (ordinal("x", tuple(range(20))), categorical("y", tuple("abcdef"))), (), ())
for name in ("random", "tpe", "evolution"):
    made = sampler(name, space, seed=1)
    for _ in range(6):
        for s in made.ask(6):
            print(s.key())
            timing = Timing.estimate(1e-6 * (1 + s.integer("x")))
            made.tell(s, Measurement(Status.OK, Provenance.MEASURED, timing=timing))
"""
    here, other_seed = printed(code)
    assert here == other_seed
    assert len(here.splitlines()) == 108
