"""Triton kernels are tuned without a GPU: compiled, filtered, verified, ranked, and stored in a database."""

# mypy: ignore-errors
from __future__ import annotations

import json
import sys

import pytest
from needs import needs_compiler

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
import triton_tuned_kernels as kernels  # noqa: E402

from autosched.cli import main  # noqa: E402
from autosched.triton import emulated, tune  # noqa: E402
from autosched.triton.tuning import KernelCall  # noqa: E402
from autosched.triton.tuning.function import TritonFunction  # noqa: E402
from autosched.triton.tuning.space import SpaceError, space_of  # noqa: E402
from autosched.triton.tuning.verifier import NoReference  # noqa: E402
from search_spaces.hardware.devices import device  # noqa: E402

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::UserWarning")]
H100, A100 = device("h100"), device("a100")
FILE = kernels.__file__


def tuned(function, arguments, tmp_path, options=None, **decorated):
    kernel = tune(database=tmp_path / "best.db", workers=0, **decorated)(function)
    launch_arguments = dict(arguments)
    return kernel, kernel.tune(grid=launch_arguments.pop("grid"), device="h100", options=options, **launch_arguments)


class TestSpace:
    def names(self, function, domains=None, fixed=("o", "x", "factor", "n"), **more):
        tuned_space = space_of(TritonFunction.of(function), fixed, domains, **more)
        return {d.name: d.values for d in tuned_space.domains}

    def test_tile_parameters_are_recognised_by_their_names(self):
        names = self.names(kernels.matmul, fixed=("a", "b", "c", "M", "N", "K"))
        assert list(names) == ["BM", "BN", "BK", "num_warps", "num_stages"] and names["BK"] == (16, 32, 64, 128, 256)

    def test_configurations_of_the_autotune_decorator_are_the_space(self):
        tuned_space = space_of(TritonFunction.of(kernels.accumulate), ("o", "x", "n"))
        space = tuned_space.space({}, H100)
        assert space.count() == 2, "the listed configurations, not the product of their values"
        assert [tuned_space.values(s)["num_warps"] for s in tuned_space.defaults()] == [4, 2]

    def test_rules_name_parameters_and_arguments(self):
        tuned_space = space_of(
            TritonFunction.of(kernels.scale),
            ("o", "x", "factor", "n"),
            {"BLOCK": [32, 64, 2048], "num_warps": [1, 2, 64]},
            [("BLOCK <= n", "a block must not exceed the array"), lambda v: v["BLOCK"] >= 32 * v["num_warps"]],
        )
        space = tuned_space.space({"n": 100}, H100)
        assert [tuned_space.values(s) for s in space.sample(9, 0)] and space.count() == 3
        reasons = {v.reason for v in space.explain({"BLOCK": 2048, "num_warps": 64})}
        assert "a block must not exceed the array (BLOCK = 2048)" in reasons
        assert any("from 1 to 32 on h100, not 64" in reason for reason in reasons)

    def test_values_may_be_booleans_or_none(self):
        tuned_space = space_of(
            TritonFunction.of(kernels.writes_half),
            ("o", "x", "n"),
            {"BLOCK": [64], "HALF": [False, True], "maxnreg": [None, 64]},
        )
        values = [tuned_space.values(s) for s in tuned_space.space({}, H100).sample(9, 0)]
        assert {v["HALF"] for v in values} == {False, True} and {v.get("maxnreg") for v in values} == {None, 64}

    @pytest.mark.parametrize(
        ("values", "rules", "said"),
        [
            (
                {"BLOK": [1]},
                (),
                "BLOK is neither a tl.constexpr parameter of scale nor a launch option: did you mean BLOCK",
            ),
            ({"num_warps": [4]}, (), "BLOCK of scale has no value"),
            ({"BLOCK": []}, (), "BLOCK of scale has no values to try"),
            ({"BLOCK": [64, 64]}, (), "BLOCK of scale has a duplicate value"),
            ({"BLOCK": [64]}, ("BLOCK <",), "the rule 'BLOCK <' of triton:scale"),
        ],
    )
    def test_invalid_spaces_are_rejected(self, values, rules, said):
        with pytest.raises(SpaceError, match="^" + said.replace("(", r"\(")):
            space_of(TritonFunction.of(kernels.scale), ("o", "x", "factor", "n"), values, rules).space({}, H100)

    def test_clusters_are_only_searched_on_gpus_with_clusters(self):
        tuned_space = space_of(
            TritonFunction.of(kernels.scale), ("o", "x", "factor", "n"), {"BLOCK": [64], "num_ctas": [1, 2]}
        )
        assert (tuned_space.space({}, H100).count(), tuned_space.space({}, A100).count()) == (2, 1)


def test_the_best_is_verified_kept_and_launched(tmp_path):
    space = {"BLOCK": [64, 256, 1024], "num_warps": [2, 4]}
    full = {"verification_seconds": 60.0}
    kernel, result = tuned(kernels.scale, kernels.scale_args(), tmp_path, options=full, space=space, trials=6)
    assert result.ok == 6 and result.best.measurement.error == 0 and not result.stopped
    verification = json.loads(result.best.verification)
    assert [run["order"] for run in verification["runs"]][:2] == ["ascending", "random"] and verification[
        "status"
    ] == "ok"
    assert result.best.measurement.resources.registers > 8
    assert any("the default configuration (BLOCK=64, num_warps=4)" in line for line in result.lines)
    arguments = kernels.scale_args()
    with emulated("h100") as session:
        kernel[arguments.pop("grid")](**arguments)
    constants = dict(session.launches[0].constants)
    assert constants["BLOCK"] == result.best.schedule["BLOCK"] and torch.equal(arguments["o"], arguments["x"] * 3)
    with emulated("h100") as session:  # a new problem is tuned at its first call, for the emulated device
        more = kernels.scale_args(64)
        kernel[more.pop("grid")](**more)
    assert torch.equal(more["o"], more["x"] * 3) and kernel.best(**kernels.scale_args(64), device="h100") is not None


def test_a_wrong_configuration_is_never_best(tmp_path):
    space = {"BLOCK": [64, 128, 512]}
    _, result = tuned(kernels.wrong_from_128, kernels.wrong_args(), tmp_path, space=space, trials=3)
    assert result.best.schedule["BLOCK"] == 64
    wrong = [r.measurement.reason for r in result.trials if r.status == "wrong_result"]
    assert wrong and "of o is 2.5, but the default configuration (BLOCK=64) computes 2" in wrong[0]


def test_configurations_that_write_different_parts_are_reported(tmp_path):
    arguments = kernels.wrong_args()
    space = {"BLOCK": [64], "HALF": [False, True]}
    _, result = tuned(kernels.writes_half, arguments, tmp_path, space=space, trials=2)
    (reason,) = [r.measurement.reason for r in result.trials if not r.ok]
    assert "does not write 2,000 of 4,000 bytes of o" in reason


def test_a_kernel_that_accumulates_is_reported(tmp_path):
    _, result = tuned(kernels.accumulate, kernels.accumulate_args(), tmp_path, trials=2)
    assert result.best is not None and len(result.trials) == 2
    assert [
        line for line in result.lines if "a second call changes the values of o" in line and "reset_to_zero" in line
    ]


def test_configurations_that_do_not_fit_are_rejected_with_a_reason(tmp_path):
    with emulated("a100", check=False) as session:
        call = KernelCall.of(TritonFunction.of(kernels.matmul), kernels.matmul_args())
    kernel = tune(
        {"BM": [128], "BN": [32, 256], "BK": [64], "num_stages": [2, 6]},
        database=tmp_path / "best.db",
        reference=kernels.product,
        trials=4,
        workers=0,
    )(kernels.matmul)
    result = kernel.tune(**call.arguments, grid=call.grid, device="a100", verification=small(session))
    refused = [r.measurement.reason for r in result.trials if r.status == "out_of_resources"]
    assert refused and all("but a100 has 166,912" in reason for reason in refused)
    assert result.best is not None and 0 < result.best.measurement.error <= 1


def small(session):
    with emulated("a100", check=False):
        return kernels.matmul_args(33, 40, 70)


def test_a_reference_that_gives_something_else(tmp_path):
    def of_another_shape(x, **_):
        return {"o": x[:10]}

    with pytest.raises(NoReference, match="returns o of shape"):
        tuned(kernels.scale, kernels.scale_args(), tmp_path, space={"BLOCK": [64]}, reference=of_another_shape)
    assert not (tmp_path / "best.db").exists()


class TestCommandLine:
    def run(self, capsys, *arguments):
        status = main(list(map(str, arguments)))
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    def test_tune_and_best(self, capsys, tmp_path):
        db = tmp_path / "best.db"
        options = ("--triton", f"{FILE}:scale", "--args", f"{FILE}:scale_args", "--db", db)
        space = ("--param", "BLOCK=64,256", "--param", "num_warps=2,4", "--rule", "BLOCK >= 32 * num_warps")
        status, out, _ = self.run(
            capsys,
            "tune",
            *options,
            *space,
            "--device",
            "h100",
            "--trials",
            3,
            "--workers",
            0,
            "--json",
            "--reference",
            f"{FILE}:scaled",
        )
        document = json.loads(out)
        assert status == 0 and document["trials"]["ok"] == 3 and document["best"]["error"] == 0
        status, out, _ = self.run(capsys, "best", *options, "--json")
        (best,) = json.loads(out)["best"]
        assert status == 0 and best["schedule"] == document["best"]["schedule"] and best["stale"] == []
        status, out, _ = self.run(capsys, "best", *options, "--size", "n=7")
        assert status == 1
        status, out, _ = self.run(capsys, "best", "--db", db)
        assert status == 0 and "triton:scale" in out and "B/s" in out
        status, out, _ = self.run(capsys, "db", "threshold", *options, "--max-slowdown", "5%")
        assert status == 0 and "allowed slowdown" in out and "5%" in out
        for command in (("report", "--out", tmp_path / "r.html"), ("db", "check"), ("train", "--out", tmp_path / "m")):
            status, out, err = self.run(capsys, *command, "--db", db, "--triton", f"{FILE}:scale")
            assert (status == 0 or command[0] == "train") and "not checked" not in out and "no such option" not in err

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            (("--args", "nowhere.py:make"), "--args: nowhere.py: no such file"),
            (("--triton", f"{FILE}:scal"), f"--triton: {FILE} has no scal: did you mean scale?"),
            (("--triton", f"{FILE}:blocks"), "blocks is not a Triton kernel: decorate it with @triton.jit"),
            (("--size", "k=3"), "raised TypeError: scale_args() got an unexpected keyword argument 'k'"),
            (("--param", "BLOCK"), "--param BLOCK: write NAME=VALUE,VALUE"),
        ],
    )
    def test_invalid_input_is_rejected_in_one_line(self, capsys, tmp_path, changed, message):
        valid_options = {"--triton": f"{FILE}:scale", "--args": f"{FILE}:scale_args", "--db": str(tmp_path / "best.db")}
        options = valid_options | {changed[0]: changed[1]}
        status, _, err = self.run(capsys, "tune", *(part for pair in options.items() for part in pair))
        assert status == 2 and message in err and err.count("\n") == 1
        assert not (tmp_path / "best.db").exists()


class TestLargeGrids:
    def large(self):
        with emulated("h100", check=False):
            return kernels.matmul_args(1024, 1024, 256)

    def tune(self, tmp_path, monkeypatch, **more):
        monkeypatch.setattr("autosched.triton.tuning.verifier.WHOLE_SECONDS", -1.0)
        space = {"BM": [64, 128], "BN": [128], "BK": [64], "num_warps": [4], "num_stages": [3]}
        return tuned(
            kernels.matmul, self.large(), tmp_path, space=space, trials=1, options={"verification_seconds": 0}, **more
        )

    def test_some_blocks_are_compared_with_the_reference(self, tmp_path, monkeypatch):
        _, result = self.tune(tmp_path, monkeypatch, reference=kernels.product)
        assert 0 < result.best.measurement.error <= 1
        (lack,) = json.loads(result.best.verification)["lacks"]
        assert lack.endswith("blocks of the grid ran")

    def test_a_wrong_element_of_sampled_blocks_is_found(self, tmp_path, monkeypatch):
        def off_by_one_at_the_end(a, b, **_):
            c = a.float() @ b.float()
            c[-1, -1] += 3
            return {"c": c}

        _, result = self.tune(tmp_path, monkeypatch, reference=off_by_one_at_the_end)
        assert result.best is None and "element (1023, 1023) of c" in result.why_none

    def test_without_a_reference_a_smaller_call_is_requested(self, tmp_path, monkeypatch):
        with pytest.raises(NoReference, match="in the emulator: "):
            self.tune(tmp_path, monkeypatch)
        assert not (tmp_path / "best.db").exists()


CRASHING = """
import os, time
import torch, triton, triton.language as tl

@triton.jit
def copy(o, x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n), mask=i < n)

def like_a_compiler_with_a_bug(*args, BLOCK, **kwargs):
    if BLOCK == 128:
        os.abort()
    if BLOCK == 256:
        while True:
            pass

copy.add_pre_run_hook(like_a_compiler_with_a_bug)
"""


def test_a_compiler_crash_or_hang_only_rejects_its_candidate(tmp_path):
    """vllm#48732: the crash of one configuration ended a sweep that had run for hours."""
    from autosched.triton.tuning.loading import load

    file = tmp_path / "crashing_copy_kernel.py"
    file.write_text(CRASHING)
    kernel = tune({"BLOCK": [64, 128, 256, 512]}, database=tmp_path / "best.db")(load(f"{file}:copy", "the kernel"))
    arguments = {"o": torch.empty(300), "x": torch.ones(300), "n": 300}
    options = {"workers": 1, "compile_seconds": 6.0}
    result = kernel.tune(**arguments, grid=kernels.blocks(300), device="h100", trials=4, options=options)
    reasons = {r.schedule["BLOCK"]: (r.status.value, r.measurement.reason) for r in result.trials}
    assert reasons[128][0] == "crashed" and "Triton's compiler crashed" in reasons[128][1]
    assert reasons[256] == ("compile_timeout", "Triton did not compile the configuration within 6 s of CPU time")
    assert reasons[64] == reasons[512] == ("ok", "") and result.best.schedule["BLOCK"] in (64, 512)


PACKAGED = """
import triton
import triton.language as tl

from .helper import doubled

@triton.jit
def twice(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, doubled(tl.load(x + i, mask=i < n)), mask=i < n)
"""
HELPER = """
import triton

@triton.jit
def doubled(x):
    return x * 2
"""
USE = """
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "elsewhere"))
import torch, triton
from autosched_tests_package.kernel import twice

def args(n=4096):
    x = torch.ones(n, device="cuda")
    return {"grid": lambda m: (triton.cdiv(n, m["BLOCK"]),), "x": x, "y": torch.empty_like(x), "n": n}

def reference(x, **_):
    return {"y": 2 * x}
"""


@pytest.mark.parametrize("path", ["use.py", "elsewhere/autosched_tests_package/kernel.py"])
def test_a_kernel_is_imported_as_its_package_does(tmp_path, monkeypatch, capsys, path):
    """The kernel is imported through the user's file, which extends sys.path, or from its file in the package."""
    package = tmp_path / "elsewhere" / "autosched_tests_package"
    package.mkdir(parents=True)
    for name, text in (("__init__.py", ""), ("helper.py", HELPER), ("kernel.py", PACKAGED), ("../../use.py", USE)):
        (package / name).write_text(text)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in [name for name in sys.modules if name.split(".")[0] in ("autosched_tests_package", "use")]:
        monkeypatch.delitem(sys.modules, name)
    use = tmp_path / "use.py"
    command = ["tune", "--triton", f"{tmp_path / path}:twice", "--args", f"{use}:args"]
    command += [
        "--reference",
        f"{use}:reference",
        "--param",
        "BLOCK=512,1024",
        "--device",
        "h100",
        "--trials",
        "2",
        "--workers",
        "1",
    ]
    assert main([*command, "--db", str(tmp_path / "best.db")]) == 0, capsys.readouterr()


def test_an_import_error_is_reported_as_such(tmp_path):
    """If the kernel's file imports a missing module, the reason names this module and does not mention Triton."""
    from autosched.triton.tuning.compiling.worker import handle

    file = tmp_path / "kernel_that_imports.py"
    file.write_text("import autosched_tests_absent\n")
    request = {"module": file.stem, "file": str(file), "function": "twice", "path": [str(tmp_path)], "device": "h100"}
    response = handle(request)
    assert response["status"] == "compile_error" and "cannot be imported" in response["reason"]
    assert "autosched_tests_absent" in response["reason"] and "Triton" not in response["reason"]
