"""Operators in PyTorch fulfil torch's requirements and run the right kernels. ``patch`` replaces torch's calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from store_trials import make_trial

from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import RmsNorm, Softmax

torch = pytest.importorskip("torch")

import autosched.torch as ours  # noqa: E402
from autosched.dispatch import functions  # noqa: E402
from autosched.torch.ops import OPERATORS  # noqa: E402

H200 = device("h200")
# a linear layer computes y = x @ w.T + bias, so w is a column-major operand b
LINEAR = Matmul(m=64, n=64, k=64, a="bf16", b="bf16", order_b="col", epilogue="bias")
PROBLEMS: list[tuple[str, Problem]] = [
    ("matmul", LINEAR),
    ("row_reduction", Softmax(rows=4, columns=64, dtype="f16")),
    ("row_reduction", RmsNorm(rows=4, columns=64, dtype="bf16", eps=1e-6)),
]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("torch") / "best.db"
    timing = Measurement(Status.OK, Provenance.ESTIMATED, timing=Timing.estimate(1e-6))
    with Store.open(path) as store:
        for name, problem in PROBLEMS:
            (schedule,) = template(name).space(problem, H200).sample(1, 0)
            store.append(make_trial(schedule, timing, problem))
    return path


def random_tensor(*shape: int, kind: Any = torch.float32, seed: int = 0) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(kind)


CALLS: list[tuple[str, tuple[Any, ...]]] = [
    ("matmul", (random_tensor(8, 16), random_tensor(16, 4))),
    ("matmul", (random_tensor(2, 8, 16, kind=torch.float16), random_tensor(16, 4, kind=torch.float16), None, "gelu")),
    ("matmul", (torch.ones(8, 16, dtype=torch.int8), torch.ones(16, 4, dtype=torch.int8))),
    ("matvec", (random_tensor(3, 16), random_tensor(5, 16))),
    ("softmax", (random_tensor(3, 16),)),
    ("rmsnorm", (random_tensor(3, 16, kind=torch.bfloat16), random_tensor(16, kind=torch.bfloat16), 1e-6)),
    ("layernorm", (random_tensor(3, 16), random_tensor(16), random_tensor(16))),
    ("reduce", (random_tensor(3, 16), "argmax")),
    ("reduce", (random_tensor(3, 16), "sum", 0)),
    ("transpose", (random_tensor(2, 3, 4),)),
]


@pytest.mark.parametrize(("name", "arguments"), CALLS)
def test_torch_accepts_the_operator(name: str, arguments: tuple[Any, ...]) -> None:
    checked = torch.library.opcheck(getattr(torch.ops.autosched, name), arguments)
    assert set(checked.values()) == {"SUCCESS"}


def test_every_operator_is_checked() -> None:
    assert {name for name, _ in CALLS} == set(OPERATORS)


@pytest.mark.parametrize(("name", "arguments"), CALLS)
def test_a_gpu_call_runs_our_function(name: str, arguments: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(functions, name, lambda *arrays, **options: calls.append((arrays, options)))
    from autosched.torch.ops import ON_GPU

    ON_GPU[name](*arguments)
    ((arrays, options),) = calls
    tensors = [a for a in (*arrays, *options.values()) if isinstance(a, torch.Tensor)]
    assert all(a is b for a, b in zip(tensors, (a for a in arguments if isinstance(a, torch.Tensor)), strict=True))
    assert all(a in options.values() for a in arguments if isinstance(a, (str, float, int)))


def test_results_agree_with_torch() -> None:
    a, b, bias = random_tensor(8, 16), random_tensor(16, 4, seed=1), random_tensor(4, seed=2)
    gelu = torch.nn.functional.gelu(a @ b + bias)
    torch.testing.assert_close(ours.matmul(a, b, bias, activation="gelu"), gelu)
    torch.testing.assert_close(ours.reduce(a, kind="max", axis=0), a.amax(0))
    ones = torch.ones(8, 16, dtype=torch.int8)
    assert ours.matmul(ones, ones.T).dtype is torch.int32
    with pytest.raises(ValueError, match="unknown activation 'tanh': use one of none"):
        ours.matmul(a, b, activation="tanh")


def test_gradients_agree_with_the_formula() -> None:
    def leaves() -> list[Any]:
        return [
            random_tensor(4, 8).requires_grad_(),
            random_tensor(8, 6, seed=1).requires_grad_(),
            random_tensor(6, seed=2).requires_grad_(),
        ]

    kernel_leaves, formula_leaves = leaves(), leaves()
    ours.matmul(*kernel_leaves, activation="silu").square().sum().backward()
    a, b, bias = formula_leaves
    torch.nn.functional.silu(a @ b + bias).square().sum().backward()
    for one, other in zip(kernel_leaves, formula_leaves, strict=True):
        torch.testing.assert_close(one.grad, other.grad)
    x, weight = random_tensor(4, 8).requires_grad_(), random_tensor(8)
    ours.rmsnorm(x, weight).sum().backward()
    assert x.grad is not None and weight.grad is None


def test_compiled_code_calls_the_operators() -> None:
    def block(x: Any, w: Any) -> Any:
        return ours.softmax(ours.matmul(x, w) * 2)

    x, w = random_tensor(8, 16), random_tensor(16, 16, seed=1)
    compiled = torch.compile(block, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, w), block(x, w))


def test_the_emulator_runs_the_chosen_kernels(database: Path) -> None:
    x, w, bias = (random_tensor(*shape, kind=torch.bfloat16, seed=3) for shape in ((64, 64), (64, 64), (64,)))
    rows = random_tensor(4, 64, kind=torch.float16)
    few, weight = random_tensor(4, 64, kind=torch.bfloat16), random_tensor(64, kind=torch.bfloat16)
    with ours.emulated(database):
        product = ours.matmul(x, w.T, bias)
        soft = ours.softmax(rows)
        normed = ours.rmsnorm(few, weight, eps=1e-6)
    torch.testing.assert_close(product, torch.nn.functional.linear(x, w, bias), rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(soft, ours.softmax(rows), rtol=1e-2, atol=1e-4)
    torch.testing.assert_close(normed, ours.rmsnorm(few, weight, eps=1e-6), rtol=2e-2, atol=2e-2)
    with ours.emulated(database), pytest.raises(ValueError, match="dense"):
        ours.softmax(random_tensor(8, 64)[:, ::2])


def test_patch_runs_tuned_calls_and_reports_why_others_are_not(database: Path) -> None:
    layer = torch.nn.Linear(64, 64, dtype=torch.bfloat16)
    x = random_tensor(64, 64, kind=torch.bfloat16)
    rows = random_tensor(4, 64, kind=torch.float16)
    expected = layer(x)
    try:
        with ours.patch(database, "h200") as calls:
            for _ in range(3):
                torch.testing.assert_close(layer(x), expected, rtol=2e-2, atol=2e-2)
            torch.nn.functional.softmax(rows, -1)
            torch.softmax(rows, 0)
            torch.mm(random_tensor(8, 8), random_tensor(8, 8))
            torch.mm(random_tensor(8, 8), random_tensor(8, 8), out=torch.empty(8, 8))
            torch.matmul(random_tensor(8), random_tensor(8))
            assert (random_tensor(8, 8) + 1).shape == (8, 8)
    finally:
        functions.use(None)
    assert calls.hits[LINEAR.key()] == 3
    assert sum(calls.hits.values()) == 4
    reasons = {why for _, why in calls.misses}
    assert {"the problem is not tuned", "softmax along an axis other than the last", "unsupported arguments"} <= reasons
    assert any("use matvec for vectors" in why for why in reasons)
    assert calls.summary().startswith("4 of 8 calls ran tuned kernels\n  hit 3 x ")
    before = calls.hits.copy()
    layer(x)
    assert calls.hits == before, "calls outside the context are not patched"


def test_importing_autosched_never_imports_torch() -> None:
    code = "import sys, autosched; assert autosched.matmul; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
