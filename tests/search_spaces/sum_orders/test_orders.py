"""The order in which a kernel adds terms is known and has a name. A rule of a search space can require an order."""

from __future__ import annotations

import pytest

from autosched.programs import loading
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import LayerNorm, Reduce, RmsNorm, Softmax
from search_spaces.operators.transpose import Transpose
from search_spaces.programs.builder import Builder, Input, Output, program
from search_spaces.programs.language.ir import Array
from search_spaces.programs.template import template
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import EmptySpace
from search_spaces.spaces.sum_order import OrderRule, OrderTerm, SumOrder
from search_spaces.sum_orders.orders import restricted, sum_order
from search_spaces.tile_operators.attention import Attention
from search_spaces.tile_operators.cross_entropy import CrossEntropy

PROBLEMS: list[tuple[Problem, str]] = [
    (Matmul(200, 300, 520), "a100"),
    (Matmul(4096, 4096, 4096), "h100"),
    (Matmul(128, 256, 512, a="bf16"), "b200"),
    (Matmul(300, 200, 256, a="i8"), "h100"),
    (Matmul(4, 512, 1000, order_b="col"), "h100"),
    (Matvec(3, 500, 1001), "a100"),
    (Softmax(64, 4096), "h100"),
    (LayerNorm(64, 4095), "a100"),
    (Reduce(640, 100, axis="column"), "a100"),
    (Reduce(64, 64, kind="max"), "a100"),
    (Transpose(64, 64), "a100"),
]


def orders_of(problem: Problem, gpu: str, count: int, seed: int = 0) -> dict[Schedule, SumOrder]:
    where = device(gpu)
    templates = templates_for(problem, where)
    orders = {}
    for schedule in templates.space(problem, where).sample(count, seed):
        order = sum_order(templates.of(schedule), problem, schedule, where)
        assert order is not None
        orders[schedule] = order
    return orders


@pytest.mark.parametrize(("problem", "gpu"), PROBLEMS, ids=lambda x: str(getattr(x, "operator", x)))
def test_every_built_in_schedule_has_an_order_that_survives_json(problem: Problem, gpu: str) -> None:
    for order in orders_of(problem, gpu, 30).values():
        assert SumOrder.from_json(order.to_json()) == order
        assert hash(SumOrder.from_json(order.to_json())) == hash(order)
        assert not order.differences(order)


@pytest.mark.parametrize(("problem", "gpu"), PROBLEMS, ids=lambda x: str(getattr(x, "operator", x)))
def test_a_restricted_space_holds_exactly_the_schedules_of_the_order(problem: Problem, gpu: str) -> None:
    where = device(gpu)
    templates = templates_for(problem, where)
    full_space = templates.space(problem, where)
    known = orders_of(problem, gpu, 60)
    reference = next(iter(known.values()))
    restricted_space = restricted(templates, problem, where, OrderRule(reference)).space(problem, where)
    assert 0 < restricted_space.count() <= full_space.count()
    for schedule, order in known.items():
        assert (schedule in restricted_space) == (order == reference)
    for schedule in restricted_space.sample(20, 1):
        assert schedule in full_space
        assert sum_order(templates.of(schedule), problem, schedule, where) == reference


def test_counts_of_all_orders_add_up(nightly: bool) -> None:
    problem, where = RmsNorm(1, 16 if nightly else 8), device("a100")
    templates = templates_for(problem, where)
    space = templates.space(problem, where)
    every = space.sample(space.count(), 0)
    orders = [sum_order(templates.of(s), problem, s, where) for s in every]
    for order in set(orders):
        restricted_space = restricted(templates, problem, where, OrderRule(order)).space(problem, where)
        assert restricted_space.count() == orders.count(order)


def test_batch_invariance_excludes_stream_k_and_peeled_rows() -> None:
    rule = OrderRule(batch_invariant=True)
    for problem, gpu, name, value in (
        (Matmul(4096, 4096, 4096), "h100", "stream_k", 1),
        (Softmax(64, 4095), "a100", "peel", "yes"),
    ):
        where = device(gpu)
        templates = templates_for(problem, where)
        restricted_space = restricted(templates, problem, where, rule).space(problem, where)
        full_space = templates.space(problem, where)
        assert any(s.values.get(name) == value for s in full_space.sample(300, 0))
        assert not any(s.values.get(name) == value for s in restricted_space.sample(300, 0))


def test_an_order_does_not_depend_on_the_rows() -> None:
    schedule = next(
        s for s in orders_of(Matmul(4096, 512, 1024), "a100", 50) if s["split_k"] == 1 and not s["stream_k"]
    )
    where = device("a100")
    orders = {
        sum_order(templates_for(p, where).of(schedule), p, schedule, where)
        for p in (Matmul(m, 512, 1024) for m in (1, 7, 300, 4096))
    }
    assert len(orders) == 1


def test_tiles_and_stages_do_not_change_the_order_and_splits_do() -> None:
    problem = Matmul(256, 256, 1024)
    by_split: dict[object, set[SumOrder]] = {}
    for schedule, order in orders_of(problem, "a100", 200).items():
        if schedule["intrinsic"] == "mma_m16n8k16_f16" and not schedule["stream_k"]:
            tiles = -(-1024 // schedule.integer("tile_k"))
            each = -(-tiles // schedule.integer("split_k")) * schedule.integer("tile_k")
            by_split.setdefault(each if each < 1024 else "one", set()).add(order)
    assert len(by_split) > 2
    assert all(len(orders) == 1 for orders in by_split.values())
    assert len(set.union(*by_split.values())) == len(by_split)


def test_sums_of_whole_numbers_have_one_order() -> None:
    assert len(set(orders_of(Matmul(300, 200, 256, a="i8"), "h100", 40).values())) == 1


def test_an_empty_space_reports_the_term_of_the_reference() -> None:
    problem, where = Matmul(64, 64, 64), device("a100")
    templates = templates_for(problem, where)
    reference = SumOrder((OrderTerm("products", "wgmma_k16_f16"), OrderTerm("ranges of k", "one range")))
    space = restricted(templates, problem, where, OrderRule(reference)).space(problem, where)
    assert space.count() == 0
    with pytest.raises(EmptySpace, match="wgmma_k16_f16") as caught:
        space.sample(1, 0)
    assert "order_of_sums_products" in caught.value.rules


def test_templates_keep_their_version_under_a_rule() -> None:
    problem, where = Matmul(256, 256, 256), device("h100")
    templates = templates_for(problem, where)
    restricted_templates = restricted(templates, problem, where, OrderRule(batch_invariant=True))
    assert {t.name: t.version for t in restricted_templates} == {t.name: t.version for t in templates}
    members = templates.space(problem, where).members
    assert all(
        m.fingerprint == members[name].fingerprint
        for name, m in restricted_templates.space(problem, where).members.items()
    )


def test_a_rule_needs_a_requirement_and_an_order_needs_its_form() -> None:
    with pytest.raises(ValueError, match="batch_invariant"):
        OrderRule()
    for bad in (None, [["a"]], [["a", "b", 1]], {"a": 1}):
        with pytest.raises(ValueError, match="order of sums"):
            SumOrder.from_json(bad)


def test_sums_of_one_term_are_exact_and_pairwise_joins_have_one_name() -> None:
    orders = orders_of(CrossEntropy(48, 900, dtype="f32"), "a100", 150)
    assert {order["sum 2"] for order in orders.values()} == {"exact, one term"}
    late = {schedule["width"] for schedule, order in orders.items() if "after the loop" in order["sum 1"]}
    assert late == {512}  # only for this width does the loop have several iterations
    assert any("threads 64x" in order["sum 1"] for order in orders.values())  # 64 lanes of two warps


@pytest.mark.parametrize("loaded", [False, True])
def test_a_pick_per_iteration_has_many_terms(loaded: bool) -> None:
    """If all iterations use one index, a sum has one term. If each loads its own index, it may have more terms."""

    @program(x=Input("m n", "f32"), at=Input("m", "i32"), out=Output("m", "f32"))
    def picked(p: Builder, x: Array, at: Array, out: Array) -> None:
        (i,) = p.blocks((x.shape[0],), (4,))
        total, index = p.state(p.zeros((4, 1))), p.load(p.window(at, (i, 0), (4, 1), column=True))
        for j in p.steps(x.shape[1], 128):
            if loaded:
                index = p.load(p.window(at, (i, 0), (4, 1), column=True))
            tile = p.load(p.window(x, (i, j), (4, 128)))
            total.set(total + p.reduction("add", p.where(p.columns(j, 128) == index, tile, 0.0), dim=1))
        p.store(total, p.window(out, (i, 0), (4, 1), column=True))

    own, where = loading.problem(picked, m=8, n=512), device("a100")
    kernels = template(own.program)
    orders = [sum_order(kernels, own, s, where) for s in kernels.space(own, where).sample(20, 0)]
    texts = {order["sum 1"] for order in orders if order is not None}
    assert (texts == {"exact, one term"}) == (not loaded)


def test_blocks_that_share_a_loop_are_named_up_to_its_iterations() -> None:
    problem, where = Attention(1, 1, 1, 70, 150, head_size=32, dtype="f16"), device("a100")
    templates = templates_for(problem, where)
    drawn = templates.space(problem, where).sample(2000, 1)
    schedule = next(s for s in drawn if (s["bn"], s["sum_1"]) == (32, "after_loop") and s["parts"] != 1)

    def order(parts: int, **values: str) -> SumOrder:
        own = schedule.replace(parts=parts, split_launches=1, unroll=1, **values)
        kernel_order = sum_order(templates.of(own), problem, own, where)
        assert kernel_order is not None
        return kernel_order

    one, two, four, eight, sixteen = (order(parts) for parts in (1, 2, 4, 8, 16))
    assert len({one, two, four}) == 3
    assert eight == sixteen  # in both cases, five blocks have one iteration each
    assert order(4, sum_1="in_loop") != four
    assert order(8, sum_1="in_loop") == eight


@pytest.mark.parametrize(("causal", "keys", "same"), [(1, 150, False), (1, 250, True), (0, 150, True)])
def test_rows_have_the_same_bits_in_tiles_with_the_same_iterations(causal: int, keys: int, same: bool) -> None:
    """With 250 keys, all tiles of the 70 queries have the same number of iterations."""
    queries = 150 if keys == 150 else 70
    problem, where = Attention(1, 1, 1, queries, keys, head_size=32, dtype="f16", causal=causal), device("a100")
    templates = templates_for(problem, where)
    drawn = [s for s in templates.space(problem, where).sample(3000, 1) if (s["bn"], s["parts"]) == (32, 1)]
    schedules = [next(s for s in drawn if s["bm"] == bm and s["sum_1"] == "in_loop") for bm in (64, 128)]
    one, other = (sum_order(templates.of(s), problem, s, where) for s in schedules)
    assert one is not None and other is not None
    assert (one == other) == same


def test_blocks_that_share_long_tiles_have_an_order_of_their_own() -> None:
    problem, where = Attention(1, 1, 1, 300, head_size=32, dtype="f16", causal=1), device("a100")
    templates = templates_for(problem, where)
    drawn = templates.space(problem, where).sample(2000, 1)
    schedule = next(s for s in drawn if (s["bm"], s["bn"], s["split_tiles"]) == (64, 32, "long"))

    def order(**values: int | str) -> SumOrder:
        own = schedule.replace(split_launches=1, unroll=1, **values)
        kernel_order = sum_order(templates.of(own), problem, own, where)
        assert kernel_order is not None
        return kernel_order

    assert len({order(parts=parts, split_tiles=tiles) for parts in (2, 4) for tiles in ("all", "long")}) == 4
    assert order(parts=16, split_tiles="long") == order(parts=16, split_tiles="all")  # each iteration has its own block
