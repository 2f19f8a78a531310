"""``autosched check DIR`` compiles the configurations of real files with Triton, without a GPU, and verifies them."""

# mypy: ignore-errors
from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest
from junit_schema import junit_schema
from needs import needs_compiler

pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")

from autosched.cli import main
from autosched.integrations.config_files import kernels
from autosched.integrations.config_files.file_names import parse_file_name
from autosched.integrations.config_files.installed import kernel_for
from autosched.integrations.config_files.verify_config import verify_config
from search_spaces.hardware.devices import device

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("forked_workers")]

SMALL = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 2, "num_warps": 2, "num_stages": 3}
DEFAULT = SMALL | {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 256, "BLOCK_SIZE_K": 128, "num_warps": 8, "num_stages": 4}
SHAPES = {
    "bf16": ("E=8,N=64,device_name=X.json", "h100"),
    "float16": ("E=8,N=64,device_name=X,dtype=float16.json", "a100"),
    "fp8 of one scale": ("E=8,N=64,device_name=X,dtype=fp8_w8a8.json", "rtx4090"),
    "fp8 of a block": ("E=8,N=64,device_name=X,dtype=fp8_w8a8,block_shape=[128,128].json", "h100"),
    "fp8 of a channel": ("E=8,N=64,device_name=X,dtype=fp8_w8a8,per_channel_quant=True.json", "rtx5090"),
    "int8": ("E=8,N=64,device_name=X,dtype=int8_w8a8,block_shape=[128,128].json", "a100"),
    "int8 weights": ("E=8,N=64,device_name=X,dtype=int8_w8a16.json", "a100"),
    "matmul": ("N=64,K=64,device_name=X,dtype=fp8_w8a8,block_shape=[128,128].json", "h100"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_our_own_kernels_are_right(shape: str) -> None:
    name, row = SHAPES[shape]
    verdict = verify_config("vllm", parse_file_name(name), SMALL, device(row), verify=True)
    assert verdict.status == "ok", verdict
    assert 0 < verdict.error_over_bound <= 1 and verdict.registers > 0 and verdict.shared_bytes > 0


@pytest.mark.parametrize("tile", [{"BLOCK_SIZE_M": 8}, {"BLOCK_SIZE_N": 8}])
def test_tiles_smaller_than_a_multiplication_are_right(tile: dict[str, int]) -> None:
    assert (
        verify_config("vllm", parse_file_name(SHAPES["bf16"][0]), SMALL | tile, device("h100"), verify=True).status
        == "ok"
    )


def test_sglang_28019_the_default_does_not_fit_consumer_blackwell() -> None:
    name = parse_file_name("E=8,N=7168,device_name=X,dtype=fp8_w8a8.json")
    verdict = verify_config("sglang", name, DEFAULT, device("rtx5090"), verify=True)
    assert verdict.status == "device_limit" and verdict.shared_bytes == 147_456
    assert "147,456 bytes of shared memory, but a block on rtx5090 has at most 101,376" in verdict.reason


def test_a_k_that_spans_two_scales_is_wrong() -> None:
    """If BLOCK_SIZE_K is larger than the block of a scale, vLLM lowers it.

    SGLang does not, so its results are wrong.
    """
    config = SMALL | {"BLOCK_SIZE_K": 128}
    layer = parse_file_name("E=8,N=64,device_name=X,dtype=fp8_w8a8,block_shape=[64,64].json")
    assert verify_config("vllm", layer, config, device("h100"), verify=True).status == "ok"
    wrong = verify_config("sglang", layer, config, device("h100"), verify=True)
    assert wrong.status == "wrong_result" and "exceed their error bound" in wrong.reason


def test_types_without_a_kernel_are_named() -> None:
    name = parse_file_name("E=8,N=64,device_name=X,dtype=int4_w4a16.json")
    verdict = verify_config("vllm", name, SMALL, device("h100"), verify=True)
    assert verdict.status == "no_kernel" and "int4_w4a16" in verdict.reason


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for fake packages, which is on the import path of this process and its children."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def install(folder: Path, package: str, module: str, change: tuple[str, str]) -> Path:
    """Install a fake package with a kernel of the test. The real package cannot be imported without a GPU."""
    path = folder / package / module
    path.parent.mkdir(parents=True)
    (folder / package / "__init__.py").write_text("raise ImportError('no GPU')\n")
    text = Path(kernels.__file__).read_text()
    assert change[0] in text
    imports = f"import {package}.needs_a_gpu\nfrom {package}.triton_utils import tl, triton\n"
    path.write_text(imports + text.partition("import triton.language as tl\n")[2].replace(*change))
    importlib.invalidate_caches()
    return path


def test_the_kernel_of_the_installed_package_is_verified(packages: Path) -> None:
    module = "model_executor/layers/fused_moe/fused_moe.py"
    path = install(
        packages, "vllm", module, ("valid = assigned < num_valid_tokens", "valid = assigned <= num_valid_tokens")
    )
    kernel = kernel_for("vllm", moe=True)
    assert kernel.package == "vllm" and kernel.origin.startswith("fused_moe_kernel of vllm")
    assert "vllm" not in sys.modules, "its kernels are read without importing it"
    name = parse_file_name(SHAPES["bf16"][0])
    verdict = verify_config("vllm", name, SMALL, device("h100"), verify=True)
    assert verdict.status == "findings" and str(path) in verdict.reason
    assert kernel_for("sglang", moe=True).package == ""


def test_an_unknown_parameter_is_reported_by_name(packages: Path) -> None:
    module = "kernels/ops/moe/fused_moe_triton_kernels.py"
    install(
        packages,
        "sglang",
        module,
        ("    num_valid_tokens,\n    stride_am,", "    num_valid_tokens,\n    moon,\n    stride_am,"),
    )
    verdict = verify_config("sglang", parse_file_name(SHAPES["bf16"][0]), SMALL, device("h100"), verify=True)
    assert verdict.status == "no_kernel" and "moon" in verdict.reason


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "configs"
    path.mkdir()
    (path / "E=8,N=64,device_name=NVIDIA_GeForce_RTX_5090.json").write_text(
        json.dumps({"triton_version": "1.0.0", "1": SMALL, "2": SMALL, "2048": DEFAULT})
    )
    (path / "E=8,N=64,device_name=AMD_Instinct_MI300X.json").write_text(json.dumps({"1": SMALL}))
    (path / "README.json").write_text("{}")
    return path


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verify configurations in one process, since each process takes seconds to import torch."""
    monkeypatch.setattr("autosched.integrations.config_files.tuning.pool.usable_cores", lambda: 1)


@pytest.mark.usefixtures("one_process")
def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    junit, page = tmp_path / "check.xml", tmp_path / "check.md"
    arguments = ["check", str(folder), "--junit", str(junit), "--markdown", str(page), "--json"]
    assert main(arguments) == 1
    document = json.loads(capsys.readouterr().out)
    verdicts = {entry["name"]: entry["verdict"] for entry in document["entries"]}
    file = "E=8,N=64,device_name=NVIDIA_GeForce_RTX_5090.json"
    assert verdicts == {
        "E=8,N=64,device_name=AMD_Instinct_MI300X.json": "cannot compare",
        file: "broken",
        f"{file}: 1 rows": "sound",
        f"{file}: 2 rows": "sound",
        f"{file}: 2048 rows": "broken",
    }
    (checked,) = [e for e in document["entries"] if e["name"] == file]
    assert any("between 2 and 2048 rows" in reason for reason in checked["reasons"])
    assert any("tuned with Triton 1.0.0" in reason for reason in checked["reasons"])
    (one,) = [e for e in document["entries"] if e["name"].endswith(": 1 rows")]
    assert "own fused-MoE kernel, because vllm is not installed" in one["numbers"]["kernel"]
    assert (
        "2 sound, 1 cannot compare, 2 broken" in document["conclusion"]
        and document["tools"]["files of another kind"] == "1"
    )
    schema = junit_schema()
    schema.validate(str(junit))
    assert "own fused\\-MoE" in page.read_text() or "own fused-MoE" in page.read_text()


@pytest.mark.usefixtures("one_process")
def test_one_device_and_no_verification(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--format", "sglang", str(folder), "--device", "rtx5090", "--no-emulate"]) == 1
    printed = capsys.readouterr().out
    assert "AMD" not in printed and "its results were not verified" in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--format", "tensorrt", "DIR"], "write vllm or sglang"),
        (["--format", "vllm"], "or a folder of configurations"),
        (["nowhere"], "no such folder"),
        ([__file__], "check --db"),
        (["DIR", "--device", "h200"], "has files for rtx5090, but not for h200"),
        (["DIR", "--db", "best.db"], "either a database"),
        (["DIR", "--kernel", "own.toml"], "--kernel is for a database"),
        (["--format", "vllm", "DIR", "--max-slowdown", "3%"], "--max-slowdown is for a database"),
        (["--format", "vllm", "DIR", "--triton-version", "1.0.0"], "pip install triton==1.0.0"),
        ([], "or a folder of configurations"),
    ],
)
def test_uncheckable_input_is_rejected_in_one_line(folder: Path, capsys, arguments: list[str], words: str) -> None:
    assert main(["check", *(str(folder) if a == "DIR" else a for a in arguments)]) == 2
    captured = capsys.readouterr()
    assert words in captured.err and captured.err.count("\n") == 1 and not captured.out


def test_a_compiler_crash_does_not_end_the_check(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from autosched.integrations.config_files.check import check_configs
    from autosched.regression.config_files import ConfigCheck

    worker = folder.parent / "crashing_worker.py"
    worker.write_text(
        "import os\nfrom measurements.workers.worker import serve\n"
        "def handle(request):\n"
        "    if request['config']['BLOCK_SIZE_M'] == 128:\n        os.abort()\n"
        "    return {'status': 'sound', 'reason': '', 'registers': 0, 'error_over_bound': 0.5}\n"
        "serve(handle)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(folder.parent))
    monkeypatch.setattr("autosched.integrations.config_files.tuning.pool.WORKER", "crashing_worker")
    report = check_configs(folder, "vllm", ConfigCheck())
    entire, broken = (f for f in report.findings if f.verdict.fails)
    assert "rows" not in entire.name and "1 broken" in entire.reasons[0]
    assert broken.name.endswith(": 2048 rows") and "SIGABRT" in broken.reason


@pytest.mark.usefixtures("one_process")
def test_the_plug_in(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    plain = [
        f"-p{name}" for name in ("no:cacheprovider", "no:xdist", "no:timeout", "autosched.regression.pytest_plugin")
    ]
    arguments = ["--rootdir", str(tmp_path), "--autosched-configs", str(folder), "--autosched-no-emulate"]
    assert pytest.main(["-q", *plain, *arguments]) == 1
    printed = capsys.readouterr().out
    assert "autosched: 1 cannot compare, 2 broken, 2 sound" in printed and "101,376" in printed
    assert pytest.main(["-q", *plain, *arguments, "--autosched-device", "rtx5090", "-k", "1 and rows"]) == 0
    capsys.readouterr()
    assert pytest.main(["-q", *plain, *arguments, "--autosched-format", "tensorrt"]) == pytest.ExitCode.USAGE_ERROR
    assert "write vllm or sglang" in capsys.readouterr().err
