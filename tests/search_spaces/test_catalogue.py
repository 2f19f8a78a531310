"""The catalogue accepts registrations and other packages' entry points, and finds the templates for a problem."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from entry_points import offer

from search_spaces import catalogue
from search_spaces.hardware.devices import Device, device
from search_spaces.installed import UnusableEntryPoint
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.operator import Operator
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Softmax
from search_spaces.templates.matmul.template import MATMUL

H200 = device("h200")
PROBLEM = Matmul(64, 64, 64)


def for_sm_100(problem: Problem, target: Device) -> str | None:
    return None if target.sm >= 100 else f"it needs sm_100, and {target.name} is sm_{target.sm}"


NEWER = replace(MATMUL, name="newer", supports=for_sm_100)
OTHER = replace(MATMUL, name="other")


@pytest.fixture(autouse=True)
def _of_its_own() -> Iterator[None]:
    """Give every test its own catalogue."""
    catalogue._catalogue.cache_clear()
    yield
    catalogue._catalogue.cache_clear()


def test_names_identify_templates_and_operators() -> None:
    for template in catalogue.templates():
        assert catalogue.template(template.name) is template
        assert set(template.operators) <= {o.name for o in catalogue.operators()}
    for operator in catalogue.operators():
        assert catalogue.operator(operator.name) is operator
        assert any(operator.name in t.operators for t in catalogue.templates()), "no template computes it"
    with pytest.raises(ValueError, match=r"^unknown kernel template 'gemm': use one of matmul, matvec, row_reduction"):
        catalogue.template("gemm")
    with pytest.raises(ValueError, match=r"^unknown operator 'gemm': use one of matmul, matvec, reduce, softmax"):
        catalogue.operator("gemm")


def test_templates_and_operators_can_be_registered_repeatedly() -> None:
    before = catalogue.templates()
    catalogue.register(NEWER)
    catalogue.register(NEWER, replace(MATMUL, name="newer", supports=for_sm_100))
    assert catalogue.templates() == (*before, NEWER)
    assert catalogue.template("newer") is NEWER
    catalogue.register(MATMUL, Operator.of(Matmul))  # registering built-in entries again has no effect
    assert catalogue.templates() == (*before, NEWER)
    scan = replace(Operator.of(Softmax), name="scan")
    catalogue.register(scan)
    assert catalogue.operator("scan") is scan
    restored = catalogue.problem_from_json({**Softmax(3, 4).to_json(), "operator": "scan"})
    assert restored == Softmax(3, 4)


def test_another_template_or_operator_of_the_same_name_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"another kernel template is already called 'matmul'"):
        catalogue.register(replace(MATMUL, summary="mine"))
    assert catalogue.template("matmul") is MATMUL
    with pytest.raises(ValueError, match=r"another operator is already called 'matmul'"):
        catalogue.register(replace(Operator.of(Matmul), summary="mine"))
    # a template may have the name of an operator
    catalogue.register(replace(Operator.of(Softmax), name="newer"), NEWER)


@pytest.mark.parametrize("entry", [None, "matmul", Matmul, PROBLEM, [MATMUL]], ids=lambda e: type(e).__name__)
def test_only_operators_and_templates_are_registered(entry: object) -> None:
    before = catalogue.templates(), catalogue.operators()
    with pytest.raises(ValueError, match="only an Operator or a KernelTemplate can be registered, not") as caught:
        catalogue.register(entry)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    assert (catalogue.templates(), catalogue.operators()) == before


def test_candidates_of_the_operator_have_a_reason_if_excluded() -> None:
    catalogue.register(NEWER, OTHER)
    candidates = catalogue.candidates(PROBLEM, H200)
    assert [t.name for t, _ in candidates] == [t.name for t in catalogue.templates() if "matmul" in t.operators]
    reasons = {t.name: why for t, why in candidates}
    assert reasons["matmul"] is None and reasons["other"] is None
    assert reasons["newer"] == "it needs sm_100, and h200 is sm_90"
    assert all("matmul" not in t.operators for t, _ in catalogue.candidates(Softmax(3, 4), H200))


def test_templates_for_a_problem_are_those_that_can_compute_it() -> None:
    catalogue.register(NEWER, OTHER)
    assert [t.name for t in catalogue.templates_for(PROBLEM, H200)] == [
        *("matmul", "wgmma_matmul", "wgmma_matmul_transposed", "tma_matmul", "other")
    ]
    later = replace(H200, sm=100, arch="sm_100")
    assert [t.name for t in catalogue.templates_for(PROBLEM, later)] == ["matmul", "tma_matmul", "newer", "other"]


def test_a_problem_without_templates_is_reported_with_reasons() -> None:
    scan = type("Scan", (Matmul,), {"operator": "scan"})(8, 8, 8)
    with pytest.raises(ValueError, match=r"^no kernel template computes this problem on h200: none is known$"):
        catalogue.templates_for(scan, H200)
    catalogue.register(replace(NEWER, operators=("scan",)), replace(NEWER, name="newest", operators=("scan",)))
    with pytest.raises(ValueError, match=r"on h200: newer: it needs sm_100, and .*; newest: it needs sm_100"):
        catalogue.templates_for(scan, H200)


@pytest.mark.parametrize("data", [7, None, [], "matmul"])
def test_json_other_than_objects_is_rejected(data: object) -> None:
    with pytest.raises(ValueError, match="the JSON of a problem must be an object, not"):
        catalogue.problem_from_json(data)  # type: ignore[arg-type]


OFFERS = """
from dataclasses import replace
from search_spaces.operators.operator import Operator
from search_spaces.operators.row_reduction import Softmax
from search_spaces.templates.matmul.template import MATMUL

ONE = replace(MATMUL, name="one")
SCAN = replace(Operator.of(Softmax), name="scan")
SEVERAL = [SCAN, replace(MATMUL, name="two")]

def made():
    return (replace(MATMUL, name="three"), replace(MATMUL, name="four"))

def broken():
    raise RuntimeError("out\\nof luck")

TAKEN = replace(MATMUL, summary="not the one")
TEXT = "matmul"
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "offers_of_a_test.py").write_text(OFFERS)
    monkeypatch.syspath_prepend(tmp_path)


def test_other_packages_offer_theirs_by_entry_points(package: None, monkeypatch: pytest.MonkeyPatch) -> None:
    before = [t.name for t in catalogue.templates()]
    catalogue._catalogue.cache_clear()
    offer(monkeypatch, catalogue.ENTRY_POINTS, *(f"offers_of_a_test:{name}" for name in ("ONE", "SEVERAL", "made")))
    assert [t.name for t in catalogue.templates()] == [*before, "one", "two", "three", "four"]
    assert catalogue.operator("scan").summary == Softmax.summary
    assert [t.name for t in catalogue.templates_for(PROBLEM, H200)][-4:] == ["one", "two", "three", "four"]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("there_is_no_such_module:ONE", "ModuleNotFoundError: No module named 'there_is_no_such_module'"),
        ("offers_of_a_test:NOWHERE", "AttributeError: .*NOWHERE"),
        ("offers_of_a_test:broken", "RuntimeError: out of luck"),
        ("offers_of_a_test:TAKEN", "another kernel template is already called 'matmul'"),
        ("offers_of_a_test:TEXT", "only an Operator or a KernelTemplate"),
    ],
)
def test_a_failing_entry_point_is_only_a_warning(
    package: None, monkeypatch: pytest.MonkeyPatch, value: str, why: str
) -> None:
    offer(monkeypatch, catalogue.ENTRY_POINTS, value, "offers_of_a_test:ONE")
    with pytest.warns(UnusableEntryPoint, match=why) as warned:
        templates = catalogue.templates()
    (warning,) = warned
    text = str(warning.message)
    assert text.startswith(f"the entry point point0 ({value}) provides no templates (")
    assert text.endswith(": fix its package") and "\n" not in text
    assert {"matmul", "one"} <= {t.name for t in templates}
    assert catalogue.template("matmul") is MATMUL
    assert catalogue.templates() == templates, "the faulty package is reported only once"


@pytest.mark.parametrize("row", catalogue.BUILT_IN_TEMPLATES, ids=lambda row: row.name)
def test_catalogue_rows_agree_with_their_templates(row: catalogue.BuiltInTemplate) -> None:
    loaded = row.load()
    assert (loaded.name, loaded.operators) == (row.name, row.operators)


@pytest.mark.parametrize("row", (*catalogue.BUILT_IN_OPERATORS, *catalogue.TILE_OPERATORS), ids=lambda row: row.name)
def test_a_row_names_the_problems_of_its_operator(row: catalogue.BuiltInOperator) -> None:
    assert row.problem_type().operator == row.name


def test_other_operators_are_not_imported() -> None:
    code = (
        "import sys\n"
        "from search_spaces import catalogue\n"
        "assert catalogue.operator('rmsnorm_quantize').options and catalogue.is_operator('attention')\n"
        "print([name for name in ('attention', 'cross_entropy', 'router_topk')\n"
        "       if f'search_spaces.tile_operators.{name}' in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_templates_of_other_operators_are_not_imported() -> None:
    code = (
        "import sys\n"
        "from search_spaces import catalogue\n"
        "from search_spaces.hardware.devices import device\n"
        "from search_spaces.operators.copy import Copy\n"
        "assert [t.name for t in catalogue.templates_for(Copy(64, 64), device('a100'))] == ['copy']\n"
        "print(sorted(name.split('.')[2] for name in sys.modules if name.startswith('search_spaces.templates.')\n"
        "             and name.count('.') == 3 and name.endswith('.template')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['copy']\n"
