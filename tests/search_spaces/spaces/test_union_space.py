"""All three classes of spaces fulfil the contract of ``SearchSpace``. A union of spaces gives additional guarantees."""

from __future__ import annotations

import hashlib
import math
from collections import Counter

import numpy as np
import pytest
from hash_seeds import printed
from hypothesis import given
from hypothesis import strategies as st
from random_spaces import legal, spaces

from search_spaces.spaces import union_space
from search_spaces.spaces.parameters import categorical, ordinal
from search_spaces.spaces.recorded_space import RecordedSpace
from search_spaces.spaces.rules import Rule
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace
from search_spaces.spaces.space import EmptySpace, Space
from search_spaces.spaces.union_space import UnionSpace

TILES = Space(
    "tiles",
    (
        ordinal("rows", (1, 2, 4, 8, 16)),
        ordinal("columns", (1, 2, 4, 8, 16)),
        categorical("unit", ("slow", "absent", "fast")),
    ),
    (),
    (
        Rule("size", lambda rows, columns: rows * columns <= 64, "over 64 elements"),
        Rule(
            "unit",
            lambda unit, rows: (unit == "slow") | ((unit == "fast") & (rows == 8)),
            "{unit} takes 8 rows",
        ),
    ),
    stratified_by="unit",
)
ROWS = Space(
    "rows",
    (ordinal("rows", (1, 2, 4, 8, 16, 32)), ordinal("stages", (1, 2, 3))),
    (),
    (Rule("staged", lambda rows, stages: rows >= stages, "too many stages"),),
)
NOTHING = Space("nothing", ROWS.parameters, (), (Rule("never", lambda rows: rows < 0, "never"),))
KINDS: dict[str, SearchSpace] = {
    "space": TILES,
    "recorded space": RecordedSpace(TILES, TILES.sample(14, 3)),
    "union": UnionSpace([ROWS, TILES]),
    "union with a recorded space": UnionSpace([RecordedSpace(TILES, TILES.sample(14, 3)), ROWS]),
    "union of one": UnionSpace([TILES]),
    "union with an empty space": UnionSpace([NOTHING, TILES]),
}
BOTH = KINDS["union"]
assert isinstance(BOTH, UnionSpace)


@pytest.mark.parametrize("space", KINDS.values(), ids=KINDS)
class TestContract:
    def test_a_full_sample_has_each_legal_schedule_once(self, space: SearchSpace) -> None:
        everything = space.sample(10**6, 1)
        assert len(everything) == len(set(everything)) == space.count()
        assert all(schedule in space and not space.explain(schedule) for schedule in everything)

    def test_longer_samples_extend_shorter_ones_of_the_same_seed(self, space: SearchSpace) -> None:
        full_sample = space.sample(space.count(), 5)
        assert all(space.sample(n, 5) == full_sample[:n] for n in range(space.count()))
        assert space.sample(space.count(), 6) != full_sample

    def test_samples_with_replacement(self, space: SearchSpace) -> None:
        drawn = space.sample(20 * space.count(), 1, replace=True)
        assert len(drawn) == 20 * space.count()
        assert set(drawn) <= set(space.sample(10**6, 0))
        assert drawn == space.sample(20 * space.count(), 1, replace=True)

    def test_invalid_requests_are_rejected(self, space: SearchSpace) -> None:
        for n, seed in ((-1, 0), (1, -1)):
            with pytest.raises(ValueError):
                space.sample(n, seed)
        one = space.sample(1, 0)
        with pytest.raises(ValueError, match="a mutation rate cannot be 0"):
            space.mutate(one, np.random.default_rng(0), 0)
        with pytest.raises(ValueError, match="equally many"):
            space.crossover(one, [], np.random.default_rng(0))

    def test_strata_are_disjoint_and_cover_the_space(self, space: SearchSpace) -> None:
        everything = Counter((s.template, s["unit"] if s.template == "tiles" else None) for s in space.sample(10**6, 0))
        assert {(s.template, s.value): s.count for s in space.strata} == dict(everything)
        assert sum(s.count for s in space.strata) == space.count()
        assert all(s.count for s in space.strata)

    def test_each_template_has_its_parameters_and_its_version(self, space: SearchSpace) -> None:
        for schedule in space.sample(10**6, 0):
            member = space.members[schedule.template]
            assert list(schedule) == [p.name for p in member.parameters]
            assert member.fingerprint == {"tiles": TILES, "rows": ROWS}[schedule.template].fingerprint

    def test_illegal_and_foreign_schedules_are_not_members(self, space: SearchSpace) -> None:
        good = next(s for s in space.sample(10**6, 0) if s.template == "tiles")
        assert good in space
        for bad in (good.replace(rows=16, columns=16), good.replace(rows=3), good.replace(unit="absent")):
            assert bad not in space
        assert Schedule("other", good.items) not in space
        assert Schedule("tiles", good.items[:2]) not in space
        assert "tiles" not in space
        with pytest.raises(ValueError, match="other: pass a schedule of"):
            space.explain(Schedule("other", good.items))
        assert [v.rule for v in space.explain(good.replace(unit="absent"))] == ["unit"]

    def test_neighbours_are_others_that_are_legal(self, space: SearchSpace) -> None:
        for schedule in space.sample(8, 2):
            neighbours = space.neighbours(schedule)
            assert neighbours and schedule not in neighbours
            assert all(near in space and near.template == schedule.template for near in neighbours)
            assert len(space.neighbours(schedule, 2)) == 2
            assert space.neighbours(schedule, 0) == []

    def test_moves_return_one_different_legal_schedule_per_parent(self, space: SearchSpace) -> None:
        parents = space.sample(20, 2)
        for children in (
            space.mutate(parents, np.random.default_rng(1)),
            space.crossover(parents, parents[::-1], np.random.default_rng(1)),
        ):
            assert len(children) == len(parents)
            assert all(child in space for child in children)
            assert children != parents
        assert space.mutate([], np.random.default_rng(1)) == []
        assert space.crossover([], [], np.random.default_rng(1)) == []

    def test_moves_follow_the_generator(self, space: SearchSpace) -> None:
        parents = space.sample(20, 2)
        for seed in range(3):
            one, two = np.random.default_rng(seed), np.random.default_rng(seed)
            assert space.mutate(parents, one) == space.mutate(parents, two)
            assert space.crossover(parents, parents[::-1], one) == space.crossover(parents, parents[::-1], two)

    def test_encodings_tell_all_schedules_apart(self, space: SearchSpace) -> None:
        everything = space.sample(10**6, 0)
        rows = space.encode(everything)
        assert rows.dtype == np.float32
        assert rows.shape == (space.count(), len(space.encoded_names)) == (space.count(), len(set(space.encoded_names)))
        assert not np.isinf(rows).any()
        assert len({row.tobytes() for row in rows}) == space.count()
        assert np.array_equal(space.encode(everything[::-1]), rows[::-1], equal_nan=True)
        assert space.encode([]).shape == (0, len(space.encoded_names))

    def test_the_fingerprint_is_a_digest(self, space: SearchSpace) -> None:
        assert len(bytes.fromhex(space.fingerprint)) == hashlib.sha256().digest_size


@given(members=st.tuples(spaces("one", 4), spaces("two", 4), spaces("three", 3)), seed=st.integers(0, 2**70))
def test_counts_and_samples_agree_with_enumeration(members: tuple[Space, Space, Space], seed: int) -> None:
    union = UnionSpace(members)
    expected = set[str]().union(*map(legal, members))
    assert union.count() == len(expected)
    if not expected:
        with pytest.raises(EmptySpace):
            union.sample(1, seed)
        return
    sampled = [s.key() for s in union.sample(len(expected) + 3, seed)]
    assert len(sampled) == len(expected)
    assert set(sampled) == expected


@given(members=st.tuples(spaces("one", 4), spaces("two", 4)), seed=st.integers(0, 1000), n=st.integers(0, 40))
def test_every_stratum_gets_its_share_until_it_is_exhausted(members: tuple[Space, Space], seed: int, n: int) -> None:
    union = UnionSpace(members)
    if not union.count():
        return
    drawn = Counter(stratum_of(union, s) for s in union.sample(n, seed))
    assert len(drawn) == min(n, len(union.strata))  # the first round of draws reaches each stratum
    rounds = {s: drawn[s.template, s.values] / s.share for s in union.strata}
    left = {s: rounds[s] for s in union.strata if drawn[s.template, s.values] < s.count}
    for one, last_round in left.items():  # strata that are not exhausted differ by at most one draw
        assert all(last_round - 1 / one.share <= other + 1e-9 + 1 for other in left.values())
    for stratum in union.strata:
        if drawn[stratum.template, stratum.values] == stratum.count:
            assert rounds[stratum] <= min(left.values(), default=rounds[stratum]) + 1 / stratum.share + 1


def stratum_of(union: UnionSpace, schedule: Schedule) -> tuple[str, tuple[int | str, ...]]:
    names = union.members[schedule.template].stratifying
    return schedule.template, tuple(schedule[name] for name in names)


def test_inside_a_stratum_all_schedules_are_equally_likely() -> None:
    first = Counter(BOTH.sample(1, seed)[0] for seed in range(9000))
    assert len(first) == BOTH.count()
    for stratum in BOTH.strata:
        counts = [n for s, n in first.items() if stratum_of(BOTH, s) == (stratum.template, stratum.values)]
        expected = 3000 / stratum.count
        assert sum((n - expected) ** 2 / expected for n in counts) < stratum.count + 6 * math.sqrt(2 * stratum.count)
        assert abs(sum(counts) - 3000) < 6 * math.sqrt(3000)


def test_strata_of_equal_size_are_sampled_independently() -> None:
    twins = UnionSpace([Space(name, (ordinal("x", tuple(range(1000))),)) for name in ("one", "two")])
    drawn = [[s["x"] for s in twins.sample(100, 1) if s.template == name] for name in ("one", "two")]
    assert len(drawn[0]) == len(drawn[1]) == 50
    assert drawn[0] != drawn[1]


def test_strata_beyond_64_bits_are_sampled() -> None:
    wide = Space("wide", [ordinal(f"p{i}", tuple(range(1000))) for i in range(8)], stratified_by="p0")
    union = UnionSpace([wide, ROWS])
    assert union.count() == 10**24 + ROWS.count()
    assert len({s["p0"] for s in union.sample(900, 1) if s.template == "wide"}) > 890
    everywhere = union.mutate(ROWS.sample(10, 0) * 100, np.random.default_rng(0))
    assert any(s.template == "wide" for s in everywhere)


def test_moves_stay_in_their_template_but_for_a_few_jumps() -> None:
    parents = [schedule for schedule in BOTH.sample(10**6, 0) for _ in range(100)]
    rng = np.random.default_rng(0)
    moved = Counter((a.template, b.template) for a, b in zip(parents, BOTH.mutate(parents, rng), strict=True))
    left = moved["rows", "tiles"] / (100 * ROWS.count())
    # "rows" has one stratum, so every jump from it leads to "tiles"
    assert left == pytest.approx(union_space.JUMP, abs=0.015)
    assert moved["tiles", "rows"] / (100 * TILES.count()) == pytest.approx(union_space.JUMP / 2, abs=0.015)


def test_a_space_of_one_stratum_has_no_jumps() -> None:
    alone = UnionSpace([ROWS])
    parents = ROWS.sample(10, 0) * 50
    assert set(alone.mutate(parents, np.random.default_rng(0))) <= set(ROWS.sample(100, 0))


def test_parents_of_one_template_are_crossed() -> None:
    a = ROWS.sample(8, 1) + TILES.sample(8, 1)
    b = [*ROWS.sample(4, 2), *TILES.sample(4, 2), *ROWS.sample(4, 3), *TILES.sample(4, 3)]
    children = [BOTH.crossover(a, b, np.random.default_rng(seed)) for seed in range(20)]
    for i, (one, other) in enumerate(zip(a, b, strict=True)):
        values = {row[i] for row in children}
        if one.template == other.template:
            assert all(
                c[name] in (one[name], other[name]) for c in values for name in one if c.template == one.template
            )
            assert {c.template for c in values} == {one.template}
        else:
            assert Counter(row[i].template for row in children)[one.template] >= 15


def test_parameters_that_a_template_does_not_have_are_missing() -> None:
    schedules = [*ROWS.sample(3, 0), *TILES.sample(3, 0)]
    names = [f"rows.{n}" for n in ROWS.encoded_names] + [f"tiles.{n}" for n in TILES.encoded_names]
    assert BOTH.encoded_names == tuple(names)
    rows, width = BOTH.encode(schedules), len(ROWS.encoded_names)
    assert np.array_equal(rows[:3, :width], ROWS.encode(schedules[:3]))
    assert np.array_equal(rows[3:, width:], TILES.encode(schedules[3:]))
    assert np.isnan(rows[:3, width:]).all() and np.isnan(rows[3:, :width]).all()


def test_the_fingerprint_follows_the_members() -> None:
    unions = [BOTH, UnionSpace([ROWS]), UnionSpace([TILES]), UnionSpace([TILES, ROWS]), UnionSpace([ROWS, NOTHING])]
    assert len({union.fingerprint for union in unions}) == len(unions)
    assert BOTH.fingerprint == UnionSpace([ROWS, TILES]).fingerprint


def test_invalid_unions_are_rejected() -> None:
    with pytest.raises(ValueError, match="needs at least one"):
        UnionSpace([])
    with pytest.raises(ValueError, match="two spaces have the same template: rows, rows"):
        UnionSpace([ROWS, ROWS])


def test_an_empty_union_reports_the_rules_of_each_template() -> None:
    other = Space("other", NOTHING.parameters, (), NOTHING.rules)
    with pytest.raises(EmptySpace, match=r"no schedule of nothing is legal: .*never.*; no schedule of other") as error:
        UnionSpace([NOTHING, other]).sample(1, 0)
    assert error.value.rules == ("never", "never")


def test_samples_and_moves_are_the_same_in_every_process() -> None:
    code = """
import numpy as np
from search_spaces.spaces.parameters import categorical, ordinal
from search_spaces.spaces.space import Space
from search_spaces.spaces.union_space import UnionSpace
a = Space("a", (ordinal("x", tuple(range(20))), categorical("y", tuple("abcdef"))), stratified_by="y")
b = Space("b", (ordinal("x", tuple(range(20))), ordinal("z", (1, 2, 3))))
union, rng = UnionSpace([a, b]), np.random.default_rng(1)
drawn = union.sample(60, 1)
for schedule in [*drawn, *union.mutate(drawn, rng), *union.crossover(drawn, drawn[::-1], rng)]:
    print(schedule.key())
"""
    first_output, second_output = printed(code)
    assert first_output == second_output
    assert len(first_output.splitlines()) == 180


def test_golden_samples() -> None:
    """A seed gives the same schedules on every machine and with every version of numpy."""
    sample = [(s.template, *(v for v in s.values.values() if isinstance(v, int))) for s in BOTH.sample(4, 7)]
    assert sample == GOLDEN


GOLDEN = [("rows", 8, 2), ("tiles", 8, 2), ("tiles", 2, 4), ("rows", 16, 1)]
