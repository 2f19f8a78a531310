"""Properties of a space agree with enumeration for small random spaces, on every code path of counting."""

from __future__ import annotations

import json
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_spaces import Way, legal, paths, raw, spaces, taking

from search_spaces.spaces.parameters import Value, categorical, ordinal
from search_spaces.spaces.rules import Attribute, Rule
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import EmptySpace, Space


@paths
@given(space=spaces())
def test_count_and_samples_agree_with_enumeration(way: Way, space: Space) -> None:
    expected = legal(space)
    with taking(way):
        assert space.count() == len(expected)
        if expected:
            everything = space.sample(len(expected) + 5, seed=1)
            assert len(everything) == len(expected)
            assert {s.key() for s in everything} == expected
            unranked = space.schedules(space.unrank(range(len(expected))))
            assert len({s.key() for s in unranked}) == len(expected)
            assert {s.key() for s in unranked} == expected


@paths
@given(space=spaces())
def test_rejected_schedules_agree_with_enumeration(way: Way, space: Space) -> None:
    broken = [v.rule for values in raw(space) for v in space.explain(values)]
    with taking(way):
        for rejection in space.rejects():
            assert rejection.raw == space.raw_count == len(raw(space))
            assert rejection.count == broken.count(rejection.rule)


@given(spaces(largest=4))
def test_columns_agree_with_single_schedules(space: Space) -> None:
    rows = raw(space)
    columns = space.columns(rows)
    assert space.allowed(columns).tolist() == [not space.explain(v) for v in rows]
    attributes = space.attributes_of(columns)
    configs = space.configs(rows)
    for i, values in enumerate(rows):
        expected = {name: array[i] for name, array in attributes.items()}
        assert dict(space.config(values).attributes) == expected
        assert configs[i] == space.config(values) == space.config(space.schedules(columns)[i])
        if broken := space.explain(values):
            with pytest.raises(ValueError, match=re.escape(broken[0].rule)):
                space.valid_config(values)
        else:
            assert space.valid_config(values) == configs[i]
        assert dict(configs[i]) == values | expected
    assert [s.values for s in space.schedules(columns)] == rows


@given(spaces())
def test_an_empty_space_names_the_rules_that_it_gives_reasons_of(space: Space) -> None:
    if space.count():
        assert space.sample(1, seed=0)
        return
    with pytest.raises(EmptySpace) as caught:
        space.sample(1, seed=0)
    assert all(name in str(caught.value) for name in caught.value.rules)
    assert caught.value.rules


def test_an_empty_space_reports_the_rules_of_the_nearest_schedule() -> None:
    parameters = [ordinal("a", (1, 2, 3)), ordinal("b", (1, 2))]

    def rule(name: str, column: str, most: int, least: int = 0) -> Rule:
        return Rule(name, lambda x: (x <= most) & (x >= least), "{x} is out of range", names={"x": column})

    low, high, harmless = rule("low", "a", 1), rule("high", "a", 3, 2), rule("harmless", "b", 1)
    with pytest.raises(EmptySpace, match=r"[123] is out of range") as caught:
        Space("s", parameters, [], [harmless, low, high]).sample(1, seed=0)
    assert caught.value.rules in (("low",), ("high",))
    with pytest.raises(EmptySpace, match="never") as caught:
        Space("s", parameters, [], [low, rule("never", "b", 0)]).sample(1, seed=0)
    assert caught.value.rules == ("never",)


def test_a_space_with_many_rules_is_soon_explained() -> None:
    """An empty space is explained quickly, since no set of rules is counted twice.

    Each of 40 parameters has a rule that leaves one value. For p0, another rule leaves a different value.
    """
    parameters = [ordinal(f"p{i}", range(8)) for i in range(40)]
    rules = [Rule(f"r{i}", lambda x, i=i: x == i % 8, "{x}", names={"x": f"p{i}"}) for i in range(40)]
    with pytest.raises(EmptySpace) as caught:
        Space("s", parameters, [], [*rules, Rule("r40", lambda x: x == 7, "{x}", names={"x": "p0"})]).sample(1, seed=0)
    assert caught.value.rules in (("r0",), ("r40",))


def sums(most: int) -> Space:
    """Return a space with the rule a + b <= most and an unrestricted c."""
    rule = Rule("sum", lambda a, b: a + b <= most, f"{{a}} + {{b}} exceed {most}")
    parameters = [ordinal("a", range(6)), ordinal("b", range(6)), categorical("c", ("x", "y"))]
    return Space("sums", parameters, [Attribute("total", lambda a, b: a + b)], [rule])


@paths
@given(space=spaces(), index=st.integers(0, 7))
def test_a_constant_is_a_parameter_that_schedules_omit(way: Way, space: Space, index: int) -> None:
    numeric = [p for p in space.parameters if not p.is_text]
    if len(space.parameters) < 2 or not numeric:
        return
    chosen = numeric[index % len(numeric)]
    value = chosen.values[-1]
    other_parameters = [p for p in space.parameters if p is not chosen]
    fixed = Space(space.name, other_parameters, space.attributes, space.rules, constants={chosen.name: int(value)})
    expected = [v for v in raw(space) if v[chosen.name] == value and not space.explain(v)]
    with taking(way):
        assert fixed.count() == len(expected)
        if not expected:
            return
        sampled = fixed.sample(len(expected) + 1, seed=1)
    assert all(chosen.name not in s.values for s in sampled)
    assert {space.schedules(space.columns([{**s.values, chosen.name: value}]))[0].key() for s in sampled} == {
        space.schedules(space.columns([v]))[0].key() for v in expected
    }
    config = fixed.config(sampled[0])
    assert config[chosen.name] == value and dict(config) == dict(
        space.config({**sampled[0].values, chosen.name: value})
    )
    assert fixed.config({**sampled[0].values, chosen.name: 12345}) == config, "constants of older schedules are ignored"
    mutants = [*fixed.neighbours(sampled[0]), *fixed.mutate(sampled, np.random.default_rng(0))]
    assert all(s in fixed and chosen.name not in s.values for s in mutants)


def test_an_older_schedule_with_a_constant_and_without_a_parameter() -> None:
    """A stored schedule may have a value for a former parameter, now a constant, and lack a newer parameter."""
    new = ordinal("b", (1, 2), before=1)
    space = Space("t", [ordinal("a", (1, 2)), new], constants={"c": 5})
    config = space.config(Schedule("t", (("a", 2), ("c", 7))))
    assert dict(config) == {"a": 2, "b": 1, "c": 5}
    assert config.schedule.values == {"a": 2, "b": 1}


def test_samples_are_uniform() -> None:
    space = sums(4)
    n = 30 * space.count() * 10
    drawn = [s.key() for s in space.sample(n, seed=11, replace=True)]
    counts = np.unique(drawn, return_counts=True)[1]
    assert len(counts) == space.count() == 30
    chi_square = float((np.square(counts - n / 30) / (n / 30)).sum())
    assert 13.1 < chi_square < 52.4  # 29 degrees of freedom: each bound holds for 99.5% of uniform samples


def test_samples_without_replacement_are_uniform() -> None:
    space = sums(1)  # 6 legal configurations
    pairs = [tuple(s.key() for s in space.sample(2, seed=seed)) for seed in range(3000)]
    counts = np.unique(pairs, axis=0, return_counts=True)[1]
    assert len(counts) == 6 * 5
    chi_square = float((np.square(counts - 100) / 100).sum())
    assert 13.1 < chi_square < 52.4


def test_golden_samples() -> None:
    """A seed gives the same schedules on every machine and with every version of numpy."""
    assert [tuple(s.values.values()) for s in sums(4).sample(5, seed=7)] == GOLDEN
    assert sums(4).sample(3, seed=7) == sums(4).sample(5, seed=7)[:3]
    assert sums(4).sample(5, seed=7) != sums(4).sample(5, seed=8)


GOLDEN = [(2, 1, "x"), (4, 0, "y"), (3, 1, "x"), (1, 0, "x"), (1, 1, "y")]


def test_explain_gives_the_reason_of_every_broken_rule() -> None:
    space = sums(4)
    assert space.explain({"a": 1, "b": 2, "c": "x"}) == []
    (violation,) = space.explain(Schedule("sums", (("a", 4), ("b", 5), ("c", "y"))))
    assert (violation.rule, violation.reason) == ("sum", "4 + 5 exceed 4")
    assert space.config({"a": 4, "b": 5, "c": "y"}).attributes == (("total", 9),)


def test_an_older_schedule_has_the_earlier_value_of_a_new_parameter() -> None:
    space = Space("grown", (ordinal("a", (1, 2)), ordinal("new", (1, 2, 3), before=2)))
    older = Schedule("grown", (("a", 1),))
    assert space.config(older).schedule == Schedule("grown", (("a", 1), ("new", 2)))
    assert space.explain(older) == []
    with pytest.raises(ValueError, match="the schedule lacks a"):
        space.config({"new": 1})
    with pytest.raises(ValueError, match="new cannot be 4"):
        ordinal("new", (1, 2), before=4)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"a": 1, "b": 2}, "the schedule lacks c"),
        ({"a": 1, "b": 2, "c": "x", "d": 1}, "sums has no parameter d: use a, b, c"),
        ({"a": 1, "b": 9, "c": "x"}, "parameter b cannot be 9"),
        ({"a": 1, "b": "2", "c": "x"}, "parameter b cannot be '2'"),
    ],
)
def test_a_schedule_of_another_space_is_rejected(values: dict[str, Value], message: str) -> None:
    for ask in (sums(4).explain, sums(4).config, sums(4).validate, lambda v: sums(4).columns([v])):
        with pytest.raises(ValueError, match=message):
            ask(values)


def test_a_schedule_of_another_template_is_rejected() -> None:
    with pytest.raises(ValueError, match="products: pass a schedule of sums"):
        sums(4).explain(Schedule("products", (("a", 1), ("b", 1), ("c", "x"))))


def test_invalid_requests_are_rejected() -> None:
    space = sums(4)
    for n, seed, message in ((-1, 0, "cannot draw -1"), (1, -2, "seed -2 is negative")):
        with pytest.raises(ValueError, match=message):
            space.sample(n, seed)
    for ranks in ([30], [-1], [2**80], np.array([30])):
        with pytest.raises(ValueError, match=r"0 to 29"):
            space.unrank(ranks)
    with pytest.raises(ValueError, match="integers"):
        space.unrank(np.array([0.5]))
    assert space.sample(0, seed=0) == [] and len(space.unrank([])) == 0


def test_invalid_spaces_are_rejected() -> None:
    a, b = ordinal("a", (1, 2)), ordinal("b", (1, 2))

    def attribute(name: str, column: str) -> Attribute:
        return Attribute(name, lambda x: x, names={"x": column})

    def rule(name: str, column: str) -> Rule:
        return Rule(name, lambda x: x > 1, "", names={"x": column})

    with pytest.raises(ValueError, match="has no parameters"):
        Space("s", [])
    with pytest.raises(ValueError, match="column a is defined twice"):
        Space("s", [a, b, a])
    with pytest.raises(ValueError, match="column b is defined twice"):
        Space("s", [a, b], [attribute("b", "a")])
    with pytest.raises(ValueError, match="rule r is defined twice"):
        Space("s", [a, b], [], [rule("r", "a"), rule("r", "b")])
    with pytest.raises(ValueError, match="r needs c, which is neither"):
        Space("s", [a, b], [], [rule("r", "c")])
    with pytest.raises(ValueError, match="attributes x and y depend"):
        Space("s", [a], [attribute("x", "y"), attribute("y", "x")])


def test_encoding_joins_the_parameters() -> None:
    space = sums(4)
    encoded = space.encode(space.sample(4, seed=0))
    assert space.encoded_names == ("a", "b", "c=x", "c=y")
    assert encoded.shape == (4, 4) and encoded.dtype == np.float32
    assert (encoded[:, 2:].sum(axis=1) == 1).all()
    assert space.encode([]).shape == (0, 4)


def test_the_fingerprint_follows_parameters_and_rules() -> None:
    space = sums(4)
    assert len(space.fingerprint) == 64 and space.fingerprint == sums(5).fingerprint
    less = Space("sums", space.parameters[:2], space.attributes, space.rules)
    free = Space("sums", space.parameters, space.attributes)
    assert len({space.fingerprint, less.fingerprint, free.fingerprint}) == 3


@paths
@given(space=spaces())
def test_each_stratum_is_a_range_of_ranks_with_one_combination_of_values(way: Way, space: Space) -> None:
    names = space.stratifying
    expected = Counter(tuple(json.loads(key)[1][name] for name in names) for key in legal(space))
    with taking(way):
        strata = space.strata
        assert {s.values: s.count for s in strata} == dict(expected)
        assert len(strata) == len(expected)
        assert [rank for s in strata for rank in s.ranks] == list(range(space.count()))
        for stratum in strata:
            assert stratum.template == space.name
            schedules = space.unrank(stratum.ranks)
            assert all(set(schedules.decode(name)) == {v} for name, v in zip(names, stratum.values, strict=True))


def test_strata_beyond_64_bits_are_exact() -> None:
    free = [ordinal(f"p{i}", tuple(range(1000))) for i in range(9)]
    rules = [Rule("few", lambda which, p0: (which == 0) | (p0 < 3), "too many")]
    space = Space("wide", [*free, ordinal("which", (0, 1))], [], rules, stratified_by="which")
    assert [(s.value, s.count) for s in space.strata] == [(0, 10**27), (1, 3 * 10**24)]
    last = space.schedules(space.unrank([space.strata[1].ranks.start, space.strata[1].ranks.stop - 1]))
    assert all(s["which"] == 1 and s.integer("p0") < 3 for s in last)


def test_a_space_is_stratified_by_a_parameter_only() -> None:
    with pytest.raises(ValueError, match="sums cannot be stratified by total"):
        Space("sums", sums(4).parameters, sums(4).attributes, stratified_by="total")
    with pytest.raises(ValueError, match="twice"):
        Space("sums", sums(4).parameters, sums(4).attributes, covering=(sums(4).parameters[0].name,) * 2)
