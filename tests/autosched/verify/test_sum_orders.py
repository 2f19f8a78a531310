"""The computed order of sums is compared with the bits of emulated results.

Schedules with equal orders must give equal bits. On inputs whose sums are inexact, nearly all pairs of different orders
give different bits. The emulator adds the products of an instruction one by one, so it does not distinguish
instructions. Kernels are compiled with the same options as when they are called: tile programs state which
multiplications and additions are fused.
"""

from __future__ import annotations

import itertools
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

from autosched.verify.batch_invariance import verify_batch
from autosched.verify.launch import LaunchUnderTest
from measurements.emulator import Order
from search_spaces.arrays import Array
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import LayerNorm, Reduce, RmsNorm, Softmax
from search_spaces.spaces.sum_order import SumOrder
from search_spaces.sum_orders.orders import sum_order
from search_spaces.tile_operators.attention import Attention
from search_spaces.tile_operators.cross_entropy import CrossEntropy
from search_spaces.tile_operators.quantized_matmul import QuantizedMatmul

pytestmark = [needs_nvrtc, needs_compiler]

FEW, MANY = 12, 200  # number of schedules per problem, by default and nightly
MOST_COINCIDENCES = 0.02  # accepted share of pairs of orders whose bits are equal by chance

PROBLEMS: list[tuple[Problem, str]] = [
    (Matmul(48, 40, 200, out="f32"), "a100"),
    (Softmax(24, 1000, dtype="f32"), "h100"),
    (RmsNorm(48, 1003, dtype="f32"), "h100"),
    (Attention(1, 1, 1, 70, 150, head_size=32, dtype="f16", log_sum_exp=1), "a100"),
]
NIGHTLY: list[tuple[Problem, str]] = [
    (Matmul(70, 40, 136, a="bf16", out="f32", order_b="col", epilogue="bias"), "h100"),
    (Matmul(5, 64, 520, out="f32", order_b="col"), "h100"),
    (Matvec(3, 40, 500, out="f32"), "h100"),
    (LayerNorm(16, 1000, dtype="f32"), "a100"),
    (Reduce(96, 40, axis="column", dtype="f32"), "a100"),
    (Attention(2, 2, 1, 150, head_size=32, dtype="bf16", causal=1, log_sum_exp=1), "h100"),
    (CrossEntropy(48, 900, dtype="f32"), "a100"),
    (CrossEntropy(24, 2300, dtype="f32"), "h100"),
    (QuantizedMatmul(8, 64, 2048), "a100"),  # in every schedule, there are more iterations than blocks
]


def rounding_sensitive_inputs(problem: Problem) -> dict[str, Array]:
    """Return random inputs for which a rounding of a sum reaches the output.

    The logarithm of a cross entropy may hide the rounding. In each returned row, one term of the sum is 1, and the
    other terms, of very different sizes, add up to 0.5. The logarithm is then small and has as many digits as the sum.
    """
    inputs = problem.random_inputs(3)
    if isinstance(problem, CrossEntropy):
        rng, logits = np.random.default_rng(3), 3 * inputs["logits"] - 11
        logits[np.arange(problem.rows), rng.integers(0, problem.columns, problem.rows)] = 0
        inputs["logits"] = logits.astype(np.float32)
    if isinstance(problem, QuantizedMatmul):  # the halves of k cancel, so that rounding is visible
        half = problem.k // 2
        x = 64 * inputs["x"][:, :half]
        inputs["x"] = np.concatenate([x, -np.nextafter(x, np.inf, dtype=x.dtype)], axis=1)
        for name, axis in (("w", 1), ("scale", 0)):
            first, _ = np.split(inputs[name], 2, axis=axis)
            inputs[name] = np.concatenate([first, first], axis=axis)
    return inputs


def in_emulator(order: SumOrder) -> tuple[SumOrder, str]:
    """Return the components of an order that affect emulated results.

    In "products", the emulator ignores the instruction's name, but not the text that follows, such as "scaled
    sums of 128".
    """
    return order.without("products"), order["products"].partition(",")[2]


@pytest.mark.parametrize(
    ("problem", "gpu"),
    [*PROBLEMS, *(pytest.param(*case, marks=pytest.mark.nightly) for case in NIGHTLY)],
    ids=lambda x: str(getattr(x, "operator", x)),
)
@pytest.mark.timeout(3600)
def test_equal_orders_give_equal_bits_and_others_do_not(
    problem: Problem, gpu: str, nightly: bool, record_property: Callable[[str, object], None]
) -> None:
    where = device(gpu)
    templates = templates_for(problem, where)
    inputs = rounding_sensitive_inputs(problem)
    bits: dict[SumOrder, set[int]] = defaultdict(set)
    schedules: Counter[SumOrder] = Counter()
    for i, schedule in enumerate(templates.space(problem, where).sample(MANY if nightly else FEW, 7)):
        template = templates.of(schedule)
        order = sum_order(template, problem, schedule, where)
        assert order is not None
        kernel = template.kernel(problem, schedule, where)
        emulation = LaunchUnderTest(kernel, inputs).run(Order("random", i))
        assert emulation.status == "ok", emulation.reason
        text = b"".join(np.ascontiguousarray(emulation.outputs[name]).tobytes() for name in sorted(emulation.outputs))
        schedules[order] += 1
        bits[order].add(zlib.crc32(text))
    for order, distinct in bits.items():
        assert len(distinct) == 1, order
    pairs = [(a, b) for a, b in itertools.combinations(bits, 2) if in_emulator(a) != in_emulator(b)]
    assert pairs
    alike = [(a, b) for a, b in pairs if bits[a] == bits[b]]
    # docs/how-to/same-bits.md has a table of these properties. To record them, run pytest --nightly -o
    # junit_family=xunit1 --junitxml FILE.
    record_property("orders", len(bits))
    record_property("pairs of equal orders", sum(n * (n - 1) // 2 for n in schedules.values()))
    record_property("pairs of different orders", len(pairs))
    record_property("of these with equal bits", len(alike))
    assert len(alike) <= max(2, MOST_COINCIDENCES * len(pairs)), alike[:5]


@pytest.mark.parametrize(
    ("problem", "gpu"),
    [
        (Matmul(150, 70, 200, out="f32"), "a100"),
        (Softmax(6, 1003, dtype="f32"), "a100"),
        (RmsNorm(6, 515), "h100"),
        (Attention(2, 1, 1, 64, 96, head_size=16, dtype="f16"), "a100"),
    ],
    ids=lambda x: str(getattr(x, "operator", x)),
)
@pytest.mark.timeout(3600)
def test_batch_invariance_by_order_agrees_with_the_emulator(problem: Problem, gpu: str, nightly: bool) -> None:
    where = device(gpu)
    templates = templates_for(problem, where)
    for schedule in templates.space(problem, where).sample(MANY if nightly else 2, 5):
        template = templates.of(schedule)
        order = sum_order(template, problem, schedule, where)
        assert order is not None
        verdict = verify_batch(template, problem, schedule, where)
        assert verdict.ok == (not order.batch_dependent), (verdict.reason, order)
        assert verdict.batch_invariant == verdict.ok


def test_stream_k_differs_between_positions_and_sizes_of_a_batch() -> None:
    problem, where = Matmul(4096, 4096, 4096, out="f32"), device("a100")
    templates = templates_for(problem, where, ["matmul"])
    schedule = next(s for s in templates.space(problem, where).sample(400, 0) if s["stream_k"])
    verdict = verify_batch(templates.of(schedule), problem, schedule, where)
    assert (verdict.status, verdict.outcome) == ("bits_differ", "refused")
    assert any(run.status == "bits_differ" for run in verdict.runs)  # values in some runs differ, too
    assert "batch_invariant" not in verdict.stored()


def test_a_verdict_stores_its_order() -> None:
    problem, where = Softmax(4, 256), device("a100")
    templates = templates_for(problem, where)
    (schedule,) = templates.space(problem, where).sample(1, 0)
    stored = verify_batch(templates.of(schedule), problem, schedule, where).stored()
    assert stored["batch_invariant"] is True
    assert SumOrder.from_json(stored["sum_order"]) == sum_order(templates.of(schedule), problem, schedule, where)
    assert [run["name"] for run in stored["runs"]][:2] == ["first launch", "launched twice"]
