"""Matvec kernels: dimension expansion in an example from IREE, rules and static_asserts, NaN, and the order of sums."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from cases import representative, spread
from compiling import compile_many, shared_pool
from kernels import generate
from static_asserts import asserted_rules

from autosched.verify.schedules import verify_one
from measurements.compiler.pool import Compiled, CompileFailure
from measurements.emulator import emulate
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.spaces.parameters import Value
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.matvec.lowering import lowering_config
from search_spaces.templates.matvec.space import space, validity_constraints
from search_spaces.templates.matvec.template import MATVEC

H200 = device("h200")
DOCUMENT = Matvec(4, 6656, 16384, out="f32")
# The example of IREE issue 22153. Warps have 32 lanes here instead of 64, so the example's lane basis and step are
# halved.
BEFORE = Schedule.from_json(
    "matvec",
    {
        **{"tile_m": 2, "tile_n": 1, "vector_w": 8, "lanes_n": 1, "lanes_k": 32},
        **{"subgroups_n": 1, "subgroups_k": 1, "tile_k": 256, "expand_dims": "no"},
        **{
            "intrinsic": "fma",
            "unroll": 1,
            "split_k": 1,
            "x_operand_source": "global",
            "cache_hint_w": "none",
            "min_blocks": 1,
        },
    },
)
AFTER = BEFORE.replace(expand_dims="yes")


def compiled(problem: Matvec, schedules: list[Schedule], target: str = "h200") -> list[Compiled]:
    row = device(target)
    results = dict(compile_many(shared_pool(), [generate(problem, s, row) for s in schedules], row.arch))
    for result in results.values():
        assert not isinstance(result, CompileFailure), result.reason
    return [results[i] for i in range(len(schedules))]  # type: ignore[misc]


def test_expansion_of_the_document_s_case_frees_registers() -> None:
    """Expansion reduces a thread's accumulators from 16 to 2, so ptxas allocates fewer registers."""
    assert lowering_config(MATVEC.config(DOCUMENT, BEFORE, H200)).accumulators_per_thread() == 16
    assert lowering_config(MATVEC.config(DOCUMENT, AFTER, H200)).accumulators_per_thread() == 2
    assert "int accumulators = 16;" in generate(DOCUMENT, BEFORE, H200).source
    assert "int accumulators = 2;" in generate(DOCUMENT, AFTER, H200).source
    before, after = (c.resources for c in compiled(DOCUMENT, [BEFORE, AFTER]))
    assert before.spill_store_bytes == after.spill_store_bytes == 0
    assert after.registers <= before.registers - 14  # 14 = 16 - 2 accumulators

    wider = {"tile_m": 4, "tile_n": 2}  # 64 accumulators without dimension expansion, and 8 with expansion
    before, after = (c.resources for c in compiled(DOCUMENT, [s.replace(**wider) for s in (BEFORE, AFTER)]))
    assert after.registers <= before.registers - 40


def test_a_wrong_accumulator_count_does_not_compile() -> None:
    kernel = generate(DOCUMENT, AFTER, H200)
    source = kernel.source.replace("int accumulators = 2;", "int accumulators = 16;")
    result = shared_pool().compile(dataclasses.replace(kernel, source=source), H200.arch)
    assert isinstance(result, CompileFailure) and "rule accumulators" in result.log


# The same example, computed with mma. Two fragments have 16 rows each, k is divided into four batches of 32 elements,
# and the four rows of x are duplicated to fill the fragment's eight columns.
FRAGMENTS = BEFORE.replace(
    **{"tile_m": 4, "tile_n": 32, "lanes_n": 8, "lanes_k": 4, "tile_k": 128},
    **{"expand_dims": "yes", "intrinsic": "mma_m16n8k16_f16"},
)


def test_fragments_carry_fewer_accumulators_than_fmas() -> None:
    """Four lanes share the fragments of 8 columns, so a thread has 32 accumulators instead of the 64 with FMAs."""
    assert lowering_config(MATVEC.config(DOCUMENT, FRAGMENTS, H200)).accumulators_per_thread() == 64
    assert "int accumulators = 32;" in generate(DOCUMENT, FRAGMENTS, H200).source
    wide = dataclasses.replace(DOCUMENT, m=16)
    by_fma = FRAGMENTS.replace(tile_m=16, tile_k=32, intrinsic="fma")
    fma, mma = (c.resources for c in compiled(wide, [by_fma, by_fma.replace(intrinsic="mma_m16n8k16_f16")]))
    assert fma.spill_store_bytes == mma.spill_store_bytes == 0
    assert mma.registers <= fma.registers - 32  # mma needs 48 fewer accumulators, but registers for fragments


BROKEN: list[tuple[dict[str, Value], str, str, str]] = [
    ({"lanes_k": 16}, "lanes", "lanes_k = 32", "lanes_k = 16"),
    ({"subgroups_n": 4}, "distribution_n", "subgroups_n = 1", "subgroups_n = 4"),
    ({"tile_k": 128}, "distribution_k", "tile_k = 256", "tile_k = 128"),
    ({"tile_k": 8192, "split_k": 3}, "split_k", "split_k = 1", "split_k = 65"),
    (
        {"x_operand_source": "shared", "tile_m": 16},
        "shared_memory",
        'x_operand_source = "global"',
        'x_operand_source = "shared"',
    ),
]

BROKEN_FRAGMENTS: list[tuple[dict[str, Value], str, str, str]] = [
    ({"tile_n": 8}, "fragment_n", "tile_n = 32", "tile_n = 8"),
    ({"vector_w": 2}, "fragment_k", "vector_w = 8", "vector_w = 2"),
    ({"expand_dims": "no"}, "fragment_k", 'expand_dims = "yes"', 'expand_dims = "no"'),
]


@pytest.mark.parametrize(
    ("schedule", "changes", "rule", "old", "new"),
    [(BEFORE, *b) for b in BROKEN] + [(FRAGMENTS, *b) for b in BROKEN_FRAGMENTS],
    ids=[b[1] for b in (*BROKEN, *BROKEN_FRAGMENTS)],
)
def test_the_rule_and_the_static_assert_agree(
    schedule: Schedule, changes: dict[str, Value], rule: str, old: str, new: str
) -> None:
    with pytest.raises(ValueError, match=f"^{rule}: "):
        generate(DOCUMENT, schedule.replace(**changes), H200)
    kernel = generate(DOCUMENT, schedule, H200)
    assert old in kernel.source
    result = shared_pool().compile(dataclasses.replace(kernel, source=kernel.source.replace(old, new)), H200.arch)
    assert isinstance(result, CompileFailure)
    assert f"rule {rule}" in result.log


def test_every_static_assert_names_a_constraint_or_an_attribute() -> None:
    derived = {"access", "accumulators", "tiles", "parts", "row_classes"}
    derived.add("layout_a")  # asserted only for fragments that ldmatrix reads; matvec has none
    assert asserted_rules("autosched/kernels/matvec.cuh") - derived <= {
        rule.name for rule in validity_constraints(DOCUMENT, H200)
    }


@pytest.mark.parametrize("target", ["a100", "h200"])
def test_sampled_schedules_compile(target: str, nightly: bool) -> None:
    for problem in (DOCUMENT, Matvec(5, 77, 99, x="bf16")):
        compiled(problem, space(problem, device(target)).sample(32 if nightly else 1, seed=7), target)


def dimensions(p: Matvec) -> str:
    return f"{p.m}x{p.n}x{p.k}"


@pytest.mark.parametrize(
    "problem",
    representative(
        [
            Matvec(1, 1, 1),
            Matvec(16, 19, 72, x="bf16", out="f32"),
            Matvec(3, 65, 333),
            Matvec(7, 40, 1026, x="bf16"),
            DOCUMENT,
        ],
        "16x19x72",
        "7x40x1026",
        ids=dimensions,
    ),
    ids=dimensions,
)
def test_sampled_schedules_are_right(problem: Matvec, nightly: bool) -> None:
    for schedule in space(problem, H200).sample(16 if nightly else 3, seed=11):
        result = verify_one(MATVEC, problem, schedule, H200)
        assert result.ok, (schedule, result.reason)


@pytest.mark.parametrize("m", spread([1, 3, 8, 13, 16], 2))
def test_matmuls_of_few_rows_are_right(m: int, nightly: bool) -> None:
    """The matvec template computes the operator matmul, with matmul's operands and tolerance."""
    dtype, out = ("f16", "bf16")[m % 2], ("f16", "f32", "bf16")[m % 3]
    problem = Matmul(m, (37, 130)[m % 2], (100, 328, 77)[m % 3], a=dtype, out=out, order_b="col")
    for schedule in space(problem, H200).sample(8 if nightly else 2, seed=m):
        result = verify_one(MATVEC, problem, schedule, H200)
        assert result.ok, (schedule, result.reason)


@pytest.mark.parametrize("how", ["carried", "expanded", "fragments"])
@pytest.mark.parametrize("source", ["global", "shared"])
def test_nan_and_infinity_propagate_as_in_numpy(how: str, source: str) -> None:
    problem = Matvec(3, 6, 100, out="f32")
    schedule = FRAGMENTS.replace(tile_m=2, x_operand_source=source)
    if how != "fragments":
        schedule = BEFORE.replace(
            **{"tile_m": 2, "tile_n": 4, "vector_w": 4, "tile_k": 128, "x_operand_source": source},
            expand_dims="yes" if how == "expanded" else "no",
        )
    inputs = problem.random_inputs(0)
    x, w = inputs["x"].copy(), inputs["w"].copy()
    x[2, 99], w[5, 0], w[1, 50], w[3, 3], x[0, 3] = np.nan, np.nan, np.inf, -np.inf, 0.0
    inputs = {"x": x, "w": w}
    out = emulate(generate(problem, schedule, H200), inputs).outputs["out"]
    reference = problem.reference(inputs)["out"]
    assert np.isnan(reference[2]).all() and np.isnan(reference[0, 3]) and np.isinf(reference[0, 1])
    finite = np.isfinite(reference)
    assert (np.isnan(out) == np.isnan(reference)).all()
    assert (out[~finite & ~np.isnan(reference)] == reference[~finite & ~np.isnan(reference)]).all()
    assert np.allclose(out[finite], reference[finite], atol=1e-3)


def test_cache_hints_reach_the_machine_code() -> None:
    hints = next(p for p in space(DOCUMENT, H200).parameters if p.name == "cache_hint_w").values
    cubins = {c.digest for c in compiled(DOCUMENT, [AFTER.replace(cache_hint_w=hint) for hint in hints])}
    assert len(cubins) == len(hints) == 4
