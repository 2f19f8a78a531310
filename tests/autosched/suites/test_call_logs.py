"""A call log records a program's problems and their counts, and the problems are read back and tuned."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import forked_python
import pytest

from autosched.cli.app import run
from autosched.dispatch import call_log
from autosched.dispatch.call_log import CallLog, CallLogError, log_calls
from autosched.suites import suite
from autosched.suites.logged_calls import read_calls
from autosched.suites.suite import SuiteMember, SuiteResult
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.row_reduction import RmsNorm, Softmax

SOFTMAX, MATMUL = Softmax(4, 64), Matmul(64, 32, 16)
TUNABLEOP = """Validator,PT_VERSION,2.13.0
GemmTunableOp_Half_TN,tn_768_1024_512_ld_512_512_768
GemmTunableOp_BFloat16_NN,nn_8_4_2_ld_8_2_8,Gemm_Hipblaslt_12,0.0123
GemmAndBiasTunableOp_float_TN,tn_16_8_4_ld_4_4_16
GemmStridedBatchedTunableOp_Half_NT,nt_64_32_16_B_6_ld_64_32_64
GemmTunableOp_double_NN,nn_8_4_2_ld_8_2_8
GemmTunableOp_Half_NN,nn_8_4_2_ld_16_2_8
ScaledGemmTunableOp_Float8_e4m3fn_Float8_e4m3fn_BFloat16_TN,tn_16_8_4_ld_4_4_16_rw_1
"""


def test_counts_are_added_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "shapes.csv"
    for _ in range(2):
        with log_calls(path):
            threads = [threading.Thread(target=lambda: [call_log.add(SOFTMAX) for _ in range(50)]) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            call_log.add(MATMUL)
    call_log.add(MATMUL)  # not recorded, since the log is closed
    assert read_calls(path).members == (SuiteMember(SOFTMAX, 400.0), SuiteMember(MATMUL, 2.0))


def test_another_file_is_not_modified(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine\n")
    log = CallLog(path)
    log.add(SOFTMAX)
    with pytest.raises(CallLogError, match="not a call log written by autosched"):
        log.write()
    assert path.read_text() == "mine\n"


def test_processes_share_a_file_and_an_invalid_path_is_reported(tmp_path: Path) -> None:
    code = (
        "from autosched.dispatch import call_log as log, functions\n"
        "from search_spaces.operators.row_reduction import Softmax\n"
        "for _ in range(3): log.add(Softmax(4, 64))"
    )

    def started(path: Path) -> subprocess.Popen[str]:
        environment = {**os.environ, "AUTOSCHED_CALL_LOG": str(path)}
        return forked_python.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE, text=True)

    both = [started(tmp_path / "shapes.csv") for _ in range(2)]
    assert [p.communicate()[1] for p in both] == ["", ""]
    assert read_calls(tmp_path / "shapes.csv").members == (SuiteMember(SOFTMAX, 6.0),)
    stderr = started(tmp_path / "no" / "shapes.csv").communicate()[1]
    assert stderr.startswith("autosched: AUTOSCHED_CALL_LOG: calls are not counted") and stderr.count("\n") == 1


def test_torch_operators_and_patched_calls_are_recorded(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    import autosched.torch as ours

    x, layer = torch.randn(4, 64), torch.nn.Linear(64, 32)
    with log_calls(tmp_path / "shapes.csv"), ours.patch(None) as calls:
        ours.softmax(x)
        for _ in range(3):
            layer(x)
        torch.mm(x[:, ::2], x.T[:32])  # no kernel computes this product of strided arrays
    linear = Matmul(4, 32, 64, a="f32", b="f32", order_b="col", epilogue="bias")
    assert set(read_calls(tmp_path / "shapes.csv").members) == {
        SuiteMember(linear, 3.0),
        SuiteMember(Softmax(4, 64, "f32"), 1.0),
    }
    assert calls.misses[linear.key(), "no database was given"] == 3


def test_tunableop_is_row_major_transposed(tmp_path: Path) -> None:
    path = tmp_path / "tunableop_untuned0.csv"
    path.write_text(TUNABLEOP + "GemmTunableOp_Half_TN,tn_768_1024_512_ld_512_512_768\n")
    read = read_calls(path)
    # The first GEMM of the file is a linear layer: x (1024, 512) @ weight (768, 512).T.
    linear = Matmul(m=1024, n=768, k=512, order_a="row", order_b="col")
    assert read.members[0] == SuiteMember(linear, 2.0)
    assert {m.problem for m in read.members[1:]} == {
        Matmul(m=4, n=8, k=2, a="bf16", b="bf16"),
        Matmul(m=8, n=16, k=4, a="f32", b="f32", order_b="col", epilogue="bias", precision="ieee"),
        Matmul(m=32, n=64, k=16, batch=6, order_a="col"),
    }
    assert sorted(read.skipped.values()) == [1, 1, 1]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not a call log"),
        ("count,problem\n", "has no problem"),
        ("count,problem\nmany,{}\n", "line 2 of"),
        ("count,problem\n0,{}\n", "line 2 of"),
        ('count,problem\n1,"{""operator"":""frobnicate""}"\n', "has no problem that can be tuned: "),
        ("GemmTunableOp_double_NN,nn_8_4_2_ld_8_2_8\n", "GEMMs of double"),
    ],
)
def test_invalid_call_logs_are_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, why: str
) -> None:
    path = tmp_path / "shapes.csv"
    path.write_text(text)
    assert run(["tune", "--from", str(path), "--db", str(tmp_path / "a.db"), "--device", "h200"]) == 2
    stderr = capsys.readouterr().err
    assert why in stderr and stderr.count("\n") == 1
    assert not (tmp_path / "a.db").exists()


@pytest.mark.parametrize(
    ("options", "trials", "seconds"),
    [
        ([], 256, None),
        (["--budget", "30m"], 10**9, 1800.0),
        (["--effort", "model"], 2, None),
        (["--effort", "quick", "--budget", "1.5h"], 32, 5400.0),
        (["--trials", "9", "--budget", "45"], 9, 45.0),
    ],
)
def test_tune_from_a_log_passes_its_budget_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], trials: int, seconds: float | None
) -> None:
    passed: dict[str, object] = {}

    def spend(members: object, **budget: object) -> SuiteResult:
        passed.update(budget, members=members)
        return SuiteResult((), 0, 0.0)

    monkeypatch.setattr(suite, "tune_suite", spend)
    with log_calls(tmp_path / "shapes.csv"):
        call_log.add(MATMUL)
        for _ in range(50):
            call_log.add(SOFTMAX)
    assert run(["tune", "--from", str(tmp_path / "shapes.csv"), "--db", "a.db", "--device", "h200", *options]) == 0
    assert (passed["trials"], passed["seconds"]) == (trials, seconds)
    members = passed["members"]
    assert isinstance(members, tuple)
    assert [(m.problem, m.weight) for m in members] == [(SOFTMAX, 50.0), (MATMUL, 1.0)], (
        "problems with the largest savings come first"
    )


@pytest.mark.parametrize(
    "options",
    [["--budget", "soon"], ["--budget", "-3m"], ["--budget", "3m", "--seconds", "2"], ["--effort", "much"]],
)
def test_an_invalid_budget_is_rejected_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    assert run(["tune", "--from", "no.csv", "--db", str(tmp_path / "a.db"), *options]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_log_is_tuned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "shapes.csv"
    with log_calls(path):
        call_log.add(Softmax(4, 64))
    arguments = ["tune", "--from", str(path), "--db", str(tmp_path / "a.db"), "--device", "h200", "--no-verify"]
    assert run([*arguments, "--effort", "model", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["problems"]
    assert entry["trials"] == 1 and entry["best"]["provenance"] == "estimated"


def traced(name: str, function: str, axes: dict[str, int | None], arrays: dict[str, tuple[list[str], str]]) -> str:
    """Return an operator's definition in the format of FlashInfer's trace dump. The last array is the output."""
    *inputs, (out, output) = [(n, {"shape": shape, "dtype": dtype}) for n, (shape, dtype) in arrays.items()]
    sizes = {n: {"type": "var"} if size is None else {"type": "const", "value": size} for n, size in axes.items()}
    more = {"tags": [f"fi_api:flashinfer.somewhere.{function}", "status:verified"], "reference": "..."}
    optional = {"temperature": {"shape": None, "dtype": "float32", "optional": True}}
    return json.dumps(
        {"name": name, "axes": sizes, "inputs": {**dict(inputs), **optional}, "outputs": {out: output}, **more}
    )


TRACES = {
    "gemm_bf16_N256_K7168.json": traced(
        "gemm_bf16_N256_K7168",
        "mm_bf16",
        {"M": None, "N": 256, "K": 7168},
        {"A": (["M", "K"], "bfloat16"), "B": (["K", "N"], "bfloat16"), "C": (["M", "N"], "bfloat16")},
    ),
    "rmsnorm_h512.json": traced(
        "rmsnorm_h512",
        "rmsnorm",
        {"batch_size": None, "hidden_size": 512},
        {
            "hidden_states": (["batch_size", "hidden_size"], "bfloat16"),
            "weight": (["hidden_size"], "bfloat16"),
            "output": (["batch_size", "hidden_size"], "bfloat16"),
        },
    ),
    "layernorm_h768.json": traced(
        "layernorm_h768",
        "layernorm",
        {"batch_size": None, "hidden_size": 768},
        {
            "hidden_states": (["batch_size", "hidden_size"], "bfloat16"),
            "weight": (["hidden_size"], "float32"),
            "output": (["batch_size", "hidden_size"], "bfloat16"),
        },
    ),
    "softmax_v320.json": traced(
        "softmax_v320",
        "softmax",
        {"batch_size": None, "vocab_size": 320},
        {"logits": (["batch_size", "vocab_size"], "float32"), "output": (["batch_size", "vocab_size"], "float32")},
    ),
    "gqa_ragged.json": traced("gqa_ragged", "run", {"h": 8}, {"q": (["h"], "bfloat16"), "output": (["h"], "bfloat16")}),
}


def test_flashinfer_traces_take_their_open_sizes_from_workloads_or_rows(tmp_path: Path) -> None:
    for name, text in TRACES.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(CallLogError, match=r"gemm_bf16_N256_K7168 does not contain its M: pass --rows"):
        read_calls(tmp_path)
    workload = {"definition": "rmsnorm_h512", "workload": {"uuid": "1", "axes": {"batch_size": 48}, "inputs": {}}}
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads" / "rmsnorm_h512.jsonl").write_text(f"{json.dumps(workload)}\n\n{json.dumps(workload)}\n")
    read = read_calls(tmp_path, (1, 64))
    assert set(read.members) == {
        SuiteMember(RmsNorm(48, 512, "bf16", eps=1e-6), 2.0),
        *(SuiteMember(Matmul(m, 256, 7168, a="bf16", b="bf16", out="bf16", order_b="col"), 1.0) for m in (1, 64)),
        *(SuiteMember(Softmax(rows, 320, "f32"), 1.0) for rows in (1, 64)),
    }
    assert dict(read.skipped) == {
        "layernorm of bf16 with a weight of f32 is not supported": 2,
        "run is not supported: only mm_bf16, rmsnorm, layernorm, softmax": 1,
    }
    alone = read_calls(tmp_path / "softmax_v320.json", (4,))
    assert alone.members == (SuiteMember(Softmax(4, 320, "f32"), 1.0),)


@pytest.mark.parametrize("text", ["{", "[1]", "{}", '{"name": 1, "axes": 2, "inputs": 3, "outputs": 4}', "[" * 99999])
def test_json_without_a_trace_is_rejected_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    arguments = ["tune", "--from", str(path), "--rows", "4", "--db", str(tmp_path / "a.db"), "--device", "h200"]
    assert run(arguments) == 2
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1 and ("is not JSON" in stderr or "has no problem" in stderr)


def test_rows_are_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.json").write_text(TRACES["softmax_v320.json"])
    for text in ("", "0", "1,", "-4", "4x"):
        assert run(["tune", "--from", str(tmp_path / "t.json"), "--db", "a.db", "--rows", text]) == 2
        assert "--rows must be sizes" in capsys.readouterr().err
