"""Spaces that are too large to enumerate are counted exactly, even beyond 64 bits. One space is like a matmul's."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import pairwise
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_spaces import themselves

from search_spaces.arrays import IntArray
from search_spaces.spaces.columns import Columns
from search_spaces.spaces.counting import elimination
from search_spaces.spaces.counting.constraints import Constraints
from search_spaces.spaces.counting.elimination import eliminate
from search_spaces.spaces.counting.limits import TooTightlyTied
from search_spaces.spaces.counting.tables import Join, Relation, keys, sorted_order
from search_spaces.spaces.each import each
from search_spaces.spaces.parameters import categorical, ordinal
from search_spaces.spaces.rules import Attribute, Rule
from search_spaces.spaces.space import Space

Mapped = Callable[[Mapping[str, Any]], Any]


def rule(name: str, needs: tuple[str, ...], allows: Mapped) -> Rule:
    return Rule(name, lambda **c: allows(c), f"{name} refuses it", names=themselves(needs))


def attribute(name: str, needs: tuple[str, ...], compute: Mapped) -> Attribute:
    return Attribute(name, lambda **c: compute(c), names=themselves(needs))


def mapped(needs: tuple[str, ...], fn: Callable[..., object]) -> Mapped:
    return lambda c: each(fn)(*(c[name] for name in needs))


# Totals ---------------------------------------------------------------------------------------------------------------


def test_counts_of_independent_parameters_multiply_exactly() -> None:
    space = Space("free", [ordinal(f"p{i}", range(100)) for i in range(15)])
    assert space.count() == space.raw_count == 10**30
    digits = 123456789012345678901234567890
    values = space.unrank([0, digits, 10**30 - 1])
    read = [int("".join(f"{values[f'p{i}'][row]:02d}" for i in reversed(range(15)))) for row in range(3)]
    assert read == [0, digits, 10**30 - 1]
    assert len({s.key() for s in space.sample(100, seed=0)}) == 100


def rising(length: int, values: int) -> Space:
    """Return a space with p0 <= p1 <= ..., which has comb(values + length - 1, length) configurations."""
    names = [f"p{i}" for i in range(length)]
    rules = [rule(f"{a}<={b}", (a, b), lambda c, a=a, b=b: c[a] <= c[b]) for a, b in pairwise(names)]
    return Space("rising", [ordinal(n, range(values)) for n in names], [], rules)


@pytest.mark.parametrize(("length", "values"), [(5, 6), (16, 16), (20, 40), (40, 40), (64, 64)])
def test_tied_parameters_count_exactly_beyond_64_bits(length: int, values: int) -> None:
    space = rising(length, values)
    count = comb(values + length - 1, length)
    assert space.count() == count
    ranks = [0, 1, count // 3, count - 1]
    drawn = space.unrank(ranks)
    assert space.allowed(drawn).all()
    assert len({s.key() for s in space.schedules(drawn)}) == len(ranks)


def test_a_total_beyond_64_bits_is_sampled_without_bias() -> None:
    space = rising(40, 40)
    assert space.count() > 2**64
    middle = space.columns(space.sample(4000, seed=2))["p20"]
    # p20 has the value v in comb(v + 20, 20) * comb(39 - v + 19, 19) configurations.
    weights = [comb(v + 20, 20) * comb(39 - v + 19, 19) for v in range(40)]
    assert sum(weights) == space.count()
    expected = float(sum(Fraction(v * w, sum(weights)) for v, w in enumerate(weights)))
    spread = float(sum(Fraction(v * v * w, sum(weights)) for v, w in enumerate(weights))) - expected**2
    assert abs(middle.mean() - expected) < 4 * (spread / 4000) ** 0.5


def test_groups_beyond_64_bits_inside_a_small_count_are_exact() -> None:
    """Intermediate counts may be huge although the final count is small, because later rules reject most rows."""
    space = rising(40, 40)
    ends = rule("ends", ("p0", "p39"), lambda c: c["p39"] - c["p0"] >= 39)
    tight = [rule(f"t{i}", (f"p{i}",), lambda c, i=i: (c[f"p{i}"] == 0) | (i == 39) | (i == 7)) for i in range(40)]
    space = Space("narrow", space.parameters, [], [*space.rules, ends, *tight])
    assert space.count() == 1
    assert space.explain(space.sample(1, seed=0)[0]) == []


def test_too_tight_rules_are_reported_before_memory_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elimination, "TABLE_ROWS", 1000)
    names = tuple(f"p{i}" for i in range(8))
    one = rule("all", names, lambda c: sum(c[n] for n in names) % 2 == 0)
    with pytest.raises(TooTightlyTied, match=r"p0, .* table of more than 1000 rows: split"):
        Space("tight", [ordinal(n, range(4)) for n in names[:7]] + [ordinal("p7", (0,))], [], [one]).count()


def test_a_count_that_would_take_minutes_is_rejected() -> None:
    names = ("p0", "p1", "p2", "p3")
    one = rule("all", names, lambda c: sum(c[n] for n in names) % 7919 == 1)
    space = Space("tight", [ordinal(n, range(3000)) for n in names], [], [one])
    for ask in (space.count, space.rejects):
        with pytest.raises(TooTightlyTied, match=r"p0, p1, p2 .* would take minutes"):
            ask()


# Tables ---------------------------------------------------------------------------------------------------------------


def relation(rows: list[tuple[int, ...]], names: str) -> Relation:
    table = np.array(rows, dtype=np.uint32).reshape(len(rows), len(names))
    return Relation({name: table[:, i] for i, name in enumerate(names)}, len(rows))


pairs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12, unique=True)


@given(pairs, pairs, st.booleans())
def test_a_join_pairs_all_rows_that_agree_in_order(
    left: list[tuple[int, int]], right: list[tuple[int, int]], dense: bool
) -> None:
    size = 5 if dense else 2**30  # for a domain this large, the join uses a search, not a table
    join = Join(relation(left, "ab"), relation(right, "bc"), {"a": 5, "b": size})
    all_rows = join.rows(0, len(left))
    by_b = sorted(range(len(right)), key=lambda i: right[i][0])
    expected = [(a, b, right[i][1]) for a, b in left for i in by_b if right[i][0] == b]
    assert list(zip(*(all_rows.columns[n].tolist() for n in "abc"), strict=True)) == expected
    assert int(join.counts.sum()) == all_rows.length == len(expected)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_keys_keep_the_order_beyond_64_bits(rows: list[tuple[int, int, int]]) -> None:
    for step in (1, 2**23):
        size = 4 * step
        table = relation([(a * step, b * step, c * step) for a, b, c in rows], "abc")
        (key,), bound = keys([table], {"a": size, "b": size, "c": size})
        assert int(key.max()) < bound
        assert [sorted(rows).index(row) for row in rows] == np.searchsorted(np.sort(key), key).tolist()
        order = sorted_order(key, bound)
        expected = sorted(range(len(rows)), key=lambda i: rows[i])  # a stable sort
        assert (list(range(len(rows))) if order is None else order.tolist()) == expected


def test_estimates_for_the_plan_are_exact_for_parameters_and_close_for_attributes() -> None:
    names = ("a", "b", "c")
    parameters = [ordinal(n, range(50)) for n in names]
    total = Attribute("total", lambda a, b: a + b)
    half = Attribute("half", lambda total, c: total // 2 + 0 * c)
    constraints = Constraints(parameters, [total, half])

    def combinations(*columns: str) -> float:
        return constraints.combinations(constraints.mask(columns))

    assert combinations("a", "b", "c") == 50**3
    assert combinations("total") == 99 and combinations("total", "c") == 99 * 50
    assert 1500 < combinations("a", "total") < 3500  # exact: 2500
    assert 60 < combinations("half", "total") < 130  # exact: 99


# A space like that of a matmul ----------------------------------------------------------------------------------------

LAYOUTS = (
    "identity",
    *(f"pad({m},{n})" for m in (2, 4, 8, 16) for n in (1, 2, 4)),
    *(f"swizzle({bits},{base},{shift})" for bits in (1, 2, 3) for base in (0, 3) for shift in (3, 4, 5)),
)
LAYOUTS = (*LAYOUTS, *(f"transpose+{layout}" for layout in LAYOUTS))


def layout_bytes(rows: int, cols: int, layout: str) -> int:
    extra = 0
    if "pad" in layout:
        m, n = map(int, layout[layout.index("(") + 1 : -1].split(","))
        extra = (cols if "transpose" in layout else rows) // n * m
    return 2 * (rows * cols + extra)


def layout_suits(rows: int, cols: int, layout: str, intrinsic: str) -> bool:
    numbers = [int(t) for t in layout[layout.index("(") + 1 : -1].split(",")] if "(" in layout else []
    if "swizzle" in layout:
        return 2 ** (numbers[0] + numbers[1] + numbers[2]) <= rows * cols and (intrinsic == "fma" or numbers[1] == 3)
    return not numbers or intrinsic == "fma" or (numbers[0] % 8 == 0 and (intrinsic != "wmma" or numbers[1] == 1))


def matmul_like() -> Space:
    """Return a space with 23 parameters like a matmul's: 10^16 configurations, of which 10^13 are legal."""
    tiles, data = (16, 32, 64, 96, 128, 192, 256), (8, 16, 32, 64, 128)
    parameters = [
        ordinal("tile_m", tiles), ordinal("tile_n", tiles), ordinal("tile_k", (16, 32, 64, 128)),
        categorical("intrinsic", ("fma", "wmma", "mma16816", "mma1688")),
        ordinal("subgroups_m", (1, 2, 4, 8)), ordinal("subgroups_n", (1, 2, 4, 8)),
        ordinal("sg_data_m", data), ordinal("sg_data_n", data),
        categorical("layout_a", LAYOUTS), categorical("layout_b", LAYOUTS),
        categorical("copy_a", ("ld.global", "cp.async")), categorical("copy_b", ("ld.global", "cp.async")),
        ordinal("vector_a", (1, 2, 4, 8)), ordinal("vector_b", (1, 2, 4, 8)),
        ordinal("copy_columns_a", (1, 2, 4, 8, 16, 32, 64, 128)),
        ordinal("copy_columns_b", (1, 2, 4, 8, 16, 32, 64, 128)),
        ordinal("stages", (1, 2, 3, 4, 5)), ordinal("unroll", (1, 2, 4, 8)),
        categorical("epilogue", ("registers", "shared")), ordinal("min_blocks", (1, 2, 3, 4)),
        ordinal("split_k", (1, 2, 4, 8, 16, 32)),
        categorical("raster", ("row", "column", "grouped_2", "grouped_4", "grouped_8", "grouped_16")),
        categorical("batch_mapping", ("outer", "inner")),
    ]  # fmt: skip

    def staging(x: str, tile: str) -> Attribute:
        return Attribute(
            f"staging_{x}",
            lambda tile, tile_k, threads, copy: tile * tile_k // (2 * threads) * (copy == "ld.global"),
            names={"tile": tile, "copy": f"copy_{x}"},
        )

    def stage_bytes(x: str, tile: str) -> Attribute:
        needs = (tile, "tile_k", f"layout_{x}")
        return attribute(f"stage_bytes_{x}", needs, mapped(needs, layout_bytes))

    def plus(name: str, *needs: str) -> Attribute:
        return attribute(name, needs, lambda c: np.sum(list(c.values()), axis=0))

    elements = each(lambda intrinsic: {"fma": 1, "wmma": 8, "mma16816": 4, "mma1688": 2}[intrinsic])

    attributes = [
        Attribute("threads", lambda subgroups_m, subgroups_n: subgroups_m * subgroups_n * 32),
        stage_bytes("a", "tile_m"), stage_bytes("b", "tile_n"), staging("a", "tile_m"), staging("b", "tile_n"),
        plus("stage_bytes", "stage_bytes_a", "stage_bytes_b"), plus("staging", "staging_a", "staging_b"),
        Attribute(
            "shared_bytes",
            lambda stage_bytes, stages, epilogue, tile_m, tile_n: np.maximum(
                stage_bytes * stages, tile_m * tile_n * 4 * (epilogue == "shared")
            ),
        ),
        Attribute("accumulators", lambda tile_m, tile_n, threads: tile_m * tile_n // threads),
        Attribute(
            "fragments",
            lambda tile_m, tile_n, subgroups_m, subgroups_n, intrinsic: (
                (tile_m // subgroups_m + tile_n // subgroups_n) * elements(intrinsic) // 16
            ),
        ),
        plus("registers", "accumulators", "fragments", "staging"),
    ]  # fmt: skip

    def wg_map(axis: str) -> Rule:
        needs = (f"tile_{axis}", f"subgroups_{axis}", f"sg_data_{axis}", "intrinsic")

        def fits(tile: int, layout: int, data: int, intrinsic: str) -> bool:
            return data % (8 if intrinsic == "fma" or axis == "n" else 16) == 0 and tile % (layout * data) == 0

        return rule(f"wg_map_{axis}", needs, mapped(needs, fits))

    def operand_rules(x: str, tile: str) -> list[Rule]:
        vector, columns = f"vector_{x}", f"copy_columns_{x}"
        shape = (tile, "tile_k", "threads", vector, columns)
        suits = (tile, "tile_k", f"layout_{x}", "intrinsic")
        together = (f"layout_{x}", vector)

        def divides(c: Mapping[str, Any]) -> Any:
            rows = np.maximum(1, c["threads"] // c[columns])
            return (c["tile_k"] % (c[vector] * c[columns]) == 0) & (c[tile] % rows == 0)

        def contiguous(layout: str, elements: int) -> bool:
            return "transpose" not in layout or elements == 1

        return [
            rule(f"layout_{x}", suits, mapped(suits, layout_suits)),
            rule(f"copy_map_{x}", shape, divides),
            rule(f"copy_layout_{x}", together, mapped(together, contiguous)),
            rule(
                f"copy_async_{x}", (f"copy_{x}", vector), lambda c: (c[f"copy_{x}"] == "ld.global") | (c[vector] >= 2)
            ),
        ]

    rules = [
        wg_map("m"), wg_map("n"), *operand_rules("a", "tile_m"), *operand_rules("b", "tile_n"),
        rule("threads", ("threads",), lambda c: c["threads"] <= 1024),
        rule("unroll", ("tile_k", "unroll"), lambda c: c["tile_k"] // 16 % c["unroll"] == 0),
        Rule(
            "stages",
            lambda stages, copy_a, copy_b: (stages <= 2) | (copy_a == "cp.async") | (copy_b == "cp.async"),
            "too many",
        ),
        rule("split_k", ("split_k", "tile_k", "stages"), lambda c: 4096 // c["tile_k"] // c["split_k"] >= c["stages"]),
        rule(
            "shared_memory",
            ("shared_bytes", "min_blocks"),
            lambda c: (c["shared_bytes"] <= 232448) & ((c["shared_bytes"] + 1024) * c["min_blocks"] <= 233472),
        ),
        rule(
            "registers",
            ("registers", "threads", "min_blocks"),
            lambda c: (c["registers"] <= 231) & ((c["registers"] + 24) * c["threads"] * c["min_blocks"] <= 65536),
        ),
    ]  # fmt: skip
    return Space("matmul_like", parameters, attributes, rules)


@pytest.fixture(scope="module")
def matmul() -> Space:
    return matmul_like()


def test_a_matmul_is_counted_in_small_tables(matmul: Space, nightly: bool) -> None:
    assert matmul.raw_count > 10**16
    trees = [matmul._tree]  # cached in the space, since each takes seconds
    if nightly:
        trees.append(eliminate(Constraints(matmul.parameters, matmul.attributes), matmul.rules))
    for tree in trees:
        assert tree.count == matmul.count() > 10**12
        rows = [len(next(iter(step.values.values()))) for step in tree.steps if step.values]
        assert max(rows) < 5_000_000


def test_the_count_of_a_matmul_agrees_with_random_samples(matmul: Space) -> None:
    rng = np.random.default_rng(1)
    n = 400_000
    codes = {p.name: rng.integers(0, len(p.values), n) for p in matmul.parameters}
    hits = int(matmul.allowed(Columns.coded(codes, {p.name: p.values for p in matmul.parameters}, n)).sum())
    expected = n * matmul.count() / matmul.raw_count
    assert expected > 50
    assert abs(hits - expected) < 4 * expected**0.5


def test_samples_of_a_matmul_are_legal_and_fixed_by_the_seed(matmul: Space) -> None:
    samples = matmul.sample(2000, seed=5)
    assert matmul.allowed(matmul.columns(samples)).all()
    assert len({s.key() for s in samples}) == 2000
    text = "\n".join(json.dumps(s.to_json(), sort_keys=True, separators=(",", ":")) for s in samples[:100])
    assert hashlib.sha256(text.encode()).hexdigest() == GOLDEN


GOLDEN = "6c69cbc5bdf59c6ea0b5856a1956682c31411afeecc99c78af74c58941b4e692"


def test_shares_of_a_matmul_sum_to_the_whole(matmul: Space) -> None:
    """Fixing a parameter to each of its values in turn divides the space into disjoint parts.

    The number of samples in each part is proportional to the part's size.
    """
    parts = []
    for i, p in enumerate(matmul.parameters):
        if p.name == "intrinsic":
            for value in p.values:
                fixed = list(matmul.parameters)
                fixed[i] = categorical(p.name, (value,))
                parts.append(Space("part", fixed, matmul.attributes, matmul.rules).count())
    assert sum(parts) == matmul.count()
    codes = matmul.columns(matmul.sample(5000, seed=3))["intrinsic"]
    expected = np.array(parts) / sum(parts) * 5000
    assert float(np.square(np.bincount(codes, minlength=4) - expected).sum() / expected.min()) < 16.3  # 3 degrees


def test_moves_in_a_matmul_find_legal_schedules(matmul: Space) -> None:
    parents = matmul.sample(50, seed=4)
    rng = np.random.default_rng(0)
    for children in (matmul.mutate(parents, rng), matmul.crossover(parents, parents[::-1], rng)):
        assert matmul.allowed(matmul.columns(children)).all()
        assert sum(a != b for a, b in zip(parents, children, strict=True)) >= 45
    assert len(matmul.neighbours(parents[0])) > 10


def test_threads_share_the_relations_of_a_space() -> None:
    """Threads share a problem's space. A relation that another thread is computing must not be considered missing."""
    at_work, go_on = threading.Event(), threading.Event()

    def compute(x: IntArray) -> IntArray:
        if not at_work.is_set():
            at_work.set()
            assert go_on.wait(10)
        return x * 2

    constraints = Constraints([ordinal("x", range(4))], [Attribute("twice", compute)])
    small = rule("small", ("twice",), lambda c: c["twice"] < 4)
    first: list[Relation | None] = []
    thread = threading.Thread(target=lambda: first.append(constraints.relation(small)))
    thread.start()
    assert at_work.wait(10)
    second = constraints.relation(small), constraints.definition("twice"), constraints.domain("twice")
    go_on.set()
    thread.join()
    assert all(relation is not None for relation in (*first, *second))
