"""Without a GPU, Inductor compiles the recorded configuration or the time model's choice. The kernel is emulated."""

# mypy: ignore-errors
from __future__ import annotations

import os
import sys
from pathlib import Path

import forked_python
import pytest
from needs import needs_compiler, needs_inductor_choices

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from cost_models.triton_matmul import TritonConfig  # noqa: E402
from search_spaces.hardware.devices import device  # noqa: E402
from search_spaces.operators.matmul import Matmul  # noqa: E402

pytestmark = needs_inductor_choices
SHAPES, STRIDES, DTYPES = ((64, 96), (96, 32)), ((96, 1), (32, 1)), (torch.float16, torch.float16)
OTHER = TritonConfig(16, 32, 32, 2, 2)


@pytest.fixture(scope="module")
def inductor():
    """Import the integration only when a test needs it, since Inductor takes two seconds to import."""
    from autosched.integrations.inductor import matmul_choices

    return matmul_choices


class Inputs:
    """Fake of Inductor's object that describes the inputs of a matmul."""

    def __init__(self, shapes=SHAPES, strides=STRIDES, dtypes=DTYPES) -> None:
        self._known = shapes, strides, dtypes

    def shapes_hinted(self):
        return self._known[0]

    shapes_symbolic = shapes_hinted

    def strides_hinted(self):
        return self._known[1]

    def dtypes(self):
        return self._known[2]


def ask(factory, inputs=None, op="mm"):
    return factory().lookup_template_configs(inputs or Inputs(), op, ["triton::mm", "triton::bmm", "aten::mm"])


def test_the_models_choice_is_deterministic_and_reported(inductor) -> None:
    reports = []
    factory = inductor.choices(device="h100", on_choice=reports.append)
    first = ask(factory)
    assert ask(factory) == first and ask(inductor.choices(device="h100")) == first
    (config,) = first["triton::mm"]
    assert config["EVEN_K"] is (96 % config["BLOCK_K"] == 0)
    (choice,) = reports
    assert choice.origin == "model" and "ESTIMATED" in str(choice) and str(choice).startswith("mm m=64 n=32 k=96 f16: ")
    same, other = inductor.choices(device="h100"), inductor.choices(device="a100")
    assert factory().uuid() == factory().uuid() == same().uuid() != other().uuid()


def test_each_choice_fits_its_device(inductor) -> None:
    problem = Matmul(m=4096, n=4096, k=4096, a="bf16")
    for name in ("a100", "h100", "rtx4090"):
        config, seconds = inductor.first_choice(problem, device(name))
        shared = 2 * (config.block_m + config.block_n) * config.block_k * config.stages
        assert shared <= device(name).shared_per_block and 0 < seconds < 1


@pytest.mark.parametrize(
    ("dtypes", "strides", "why"),
    [
        ((torch.float64, torch.float64), STRIDES, "products of float64"),
        ((torch.float16, torch.bfloat16), STRIDES, "products of float16 and bfloat16"),
        (DTYPES, ((192, 2), (32, 1)), "contiguous"),
    ],
)
def test_unsupported_problems_are_left_to_inductor(inductor, dtypes, strides, why) -> None:
    reports = []
    assert ask(inductor.choices(device="h100", on_choice=reports.append), Inputs(SHAPES, strides, dtypes)) == {}
    assert why in str(reports[0]) and "left to Inductor" in str(reports[0])
    assert ask(inductor.choices(device="h100"), op="convolution") == {}


def test_a_recorded_winner_goes_before_the_model(inductor, tmp_path: Path) -> None:
    database = tmp_path / "best.db"
    key, _, _ = inductor._described("mm", SHAPES, STRIDES, DTYPES)
    inductor.record_winner(database, device("h100"), key, OTHER, 3e-6)
    reports = []
    (config,) = ask(inductor.choices(database, device="h100", on_choice=reports.append))["triton::mm"]
    assert (config["BLOCK_M"], config["BLOCK_K"], config["num_warps"], config["EVEN_K"]) == (16, 32, 2, True)
    assert str(reports[0]).endswith("(recorded, 3.00 us MEASURED)")
    assert inductor.choices(database, device="h100")().uuid() != inductor.choices(device="h100")().uuid()
    (elsewhere,) = ask(inductor.choices(database, device="a100", on_choice=reports.append))["triton::mm"]
    assert reports[1].origin == "model" and "none of the 0 recorded winners" in str(reports[1]) and elsewhere
    with pytest.raises(ValueError, match="there is no database"):
        inductor.choices(tmp_path / "none.db", device="h100")


class Node:
    def __init__(self, size, stride, kind="cuda") -> None:
        self._size, self._stride, self._kind = size, stride, kind

    def get_size(self):
        return self._size

    def get_stride(self):
        return self._stride

    def get_dtype(self):
        return torch.float16

    def get_device(self):
        return torch.device(self._kind)


class Caller:
    def __init__(self, info, kind="cuda") -> None:
        self.log_info = info
        self.input_nodes = [Node(s, t, kind) for s, t in zip(SHAPES, STRIDES, strict=True)]


def test_measurements_of_inductor_are_recorded(inductor, tmp_path: Path) -> None:
    database = tmp_path / "best.db"
    factory = inductor.choices(database, device="h100", record=True)
    assert ask(factory) == {}, "Inductor must time the candidates before a choice is recorded"
    slow = Caller({"tile_shape": "(64, 32, 32)", "num_stages": 3, "num_warps": 4})
    fast = Caller({"tile_shape": "(16, 32, 32)", "num_stages": 2, "num_warps": 2})
    library, failed = Caller({}), Caller({"tile_shape": "(1, 1, 1)", "num_stages": 1, "num_warps": 1})
    timings = {slow: 0.004, fast: 0.003, library: 0.001, failed: float("inf")}
    assert factory().override_best_choice(library, timings) is library
    (config,) = ask(inductor.choices(database, device="h100"))["triton::mm"]
    assert (config["BLOCK_M"], config["BLOCK_N"], config["num_stages"]) == (16, 32, 2)

    fresh = tmp_path / "cpu.db"
    shared = inductor.choices(fresh, device="h100", record=True)()._shared
    emulated = Caller({"tile_shape": "(16, 32, 32)", "num_stages": 2, "num_warps": 2}, "cpu")
    inductor._keep(shared, emulated, {emulated: 0.003})
    assert shared.recorded == {}, "emulated times are not recorded"
    assert isinstance(inductor.choices(fresh, device="h100")(), inductor._LookupChoices)


PROGRAM = """
import sys
import torch
import torch._inductor.config as config
from autosched.integrations.inductor import choices
from autosched.triton import emulated
config.inductor_choices_class = choices(sys.argv[1] or None, device="h100", on_choice=print)
config.max_autotune_gemm_backends = "TRITON"
with emulated("h100") as session, torch.no_grad():
    a, b = (torch.randn(*shape, dtype=torch.float16, device="cuda") for shape in ((64, 96), (96, 32)))
    out = torch.compile(lambda a, b: a @ b, options={"max_autotune": True})(a, b)
    torch.testing.assert_close(out, a @ b, atol=2e-2, rtol=2e-2)
    print([launch.kernel for launch in session.launches], len(session.findings))
"""


@needs_compiler
@pytest.mark.parametrize("recorded", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_inductor_compiles_the_choice(inductor, recorded: bool, tmp_path: Path) -> None:
    database = tmp_path / "best.db"
    if recorded:
        key, _, _ = inductor._described("mm", SHAPES, STRIDES, DTYPES)
        inductor.record_winner(database, device("h100"), key, OTHER, 3e-6)
    command = [sys.executable, "-c", PROGRAM, str(database) if recorded else ""]
    fresh = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
    completed = forked_python.run(
        command, torch=True, capture_output=True, text=True, timeout=280, check=False, env=fresh
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    report, launched = completed.stdout.strip().splitlines()
    assert report.startswith("mm m=64 n=32 k=96 f16: ")
    assert ("16x32x32, 2 stages, 2 warps (recorded" in report) is recorded
    assert launched.startswith("['triton_tem_fused_mm_0'") and launched.endswith(" 0")
