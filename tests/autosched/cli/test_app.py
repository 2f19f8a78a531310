"""What the command line answers: help, exit statuses, one line for every error, one JSON document."""

import dataclasses
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from autosched.cli import app, main
from autosched.cli.commands.machine import doctor as doctor_module
from autosched.proofs.proof import Verification
from measurements.compiler.nvrtc import NvrtcMissing
from measurements.emulator import Emulation
from measurements.records.measurement import Measurement, Provenance, Resources, Status, Timing
from measurements.records.record import Record, canonical_json
from measurements.store.store import Store
from search_spaces.catalogue import operator, operators, template, templates, templates_for
from search_spaces.hardware.devices import DEVICES, device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.operator import Operator, Option
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import TemplateSet

Run = Callable[..., tuple[int, str, str]]

SMALL = ("-m", "64", "-n", "64", "-k", "64")
PROBLEM = Matmul(64, 64, 64)
COMMANDS = ("space", "tune", "best", "verify")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return the command line in an empty folder: (status, stdout, stderr)."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def command(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(arguments)
        out = capsys.readouterr()
        return status, out.out, out.err

    return command


def process(*arguments: str, cwd: Path, **more: Any) -> "subprocess.CompletedProcess[str]":
    """Return the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "autosched", *arguments], cwd=cwd, capture_output=True, text=True, timeout=120, **more
    )


def schedule(number: int = 0) -> Schedule:
    return template("matmul").space(PROBLEM, device("h200")).sample(number + 1, 0)[number]


def record(
    seconds: float | None = 2e-6,
    *,
    problem: Matmul = PROBLEM,
    on: str = "h200",
    provenance: Provenance = Provenance.ESTIMATED,
    chosen: Schedule | None = None,
) -> Record:
    if seconds is None:
        measurement = Measurement(Status.COMPILE_ERROR, provenance, "does not compile")
    else:
        resources = Resources(64, 0, 0, 0, 0, 4096)
        measurement = Measurement(
            Status.OK, provenance, timing=Timing(seconds, seconds, seconds, 7), resources=resources
        )
    return Record(
        problem_key=problem.key(),
        schedule=chosen or schedule(),
        device=on,
        fingerprint="{}",
        template_version="v1",
        space_version="1",
        kernel_digest="d",
        measurement=measurement,
        toolchain="nvrtc 13.0",
        driver="",
        autosched_version="0.1.0",
        created=datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
        sampler="random",
        seed=0,
    )


def emulated() -> Verification:
    run = Emulation("ok", {}, (), (), (), compile_seconds=0.1, run_seconds=0.1)
    return Verification(PROBLEM, schedule(), "ok", "", 0.5, 1e-3, run)


def database(path: Path, *records: Record) -> Path:
    store = Store.open(path)
    for r in records:
        store.append(r)
    return path


# -- help and errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",), *((c, "-h") for c in COMMANDS), ("doctor", "-h")])
def test_help_is_an_answer(run: Run, arguments: tuple[str, ...]) -> None:
    status, out, err = run(*arguments)
    assert (status, err) == (0, "")
    assert "Usage: autosched" in out


def test_help_says_what_a_status_means_and_gives_an_example(run: Run) -> None:
    out = " ".join(run("--help")[1].split())
    assert "Example: autosched tune matmul" in out
    statuses = ("Exit status: 0 done", "1 the answer is no", "2 bad", "130 stopped by Ctrl-C or SIGTERM")
    assert all(text in out for text in statuses)
    for command in COMMANDS:
        _, _, example = run(command, "--help")[1].partition("Example: autosched ")
        assert example.startswith(command)


@pytest.mark.parametrize("name", [o.name for o in operators()])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_operator_has_its_options_in_every_command(run: Run, command: str, name: str) -> None:
    status, out, _ = run(command, name, "--help")
    assert status == 0
    assert out.splitlines()[0] == f"Usage: autosched {command} {name} [PROBLEM] [OPTIONS]"
    for option in operator(name).options:
        for flag in option.flags:
            assert flag in out.replace(",", " ").split(), flag
    shown = [line.split()[0] for line in out.splitlines() if line.startswith("  -")]
    assert "--json" in shown and len(shown) == len(set(shown)), (
        "an option of the operator has the name of one of the command"
    )


def test_the_version_is_printed(run: Run) -> None:
    status, out, _ = run("--version")
    assert status == 0
    assert out.startswith("autosched ")


BAD = {
    "a share that is none": (
        ("check", "--db", "b.db", "--static", "--max-slowdown", "inf"),
        "'inf' is not a share: write 3% or 0.03",
    ),
    "unknown command": (("frobnicate",), "use one of space, tune, best, "),
    "a command almost": (("tun",), "did you mean tune?"),
    "no command but an option": (("--json",), "--json"),
    "no operator": (("tune",), "matmul"),
    "unknown operator": (("tune", "matmull"), "unknown operator 'matmull', did you mean matmul?"),
    "an operator of a kernel file": (("best", "of_a_file"), ", or give --kernel FILE"),
    "options before the operator": (("tune", "--trials", "3", "matmul"), "options go behind the operator, as in"),
    "no real number": (
        ("space", "rmsnorm", "--rows", "4", "--columns", "4", "--eps", "small"),
        "'small' is not a number",
    ),
    "missing size": (("verify", "matmul", "-m", "3"), "-n and -k: see 'autosched verify matmul --help'"),
    "a share without its sign": (("check", "--db", "x", "--max-slowdown", "3"), "3 would be 300%: write 3% or 0.03"),
    "no size": (("space", "matmul", "-m"), "-m"),
    "negative size": (("space", "matmul", "-m", "-4", "-n", "4", "-k", "4"), "-4"),
    "zero size": (("space", "matmul", "-m", "4", "-n", "0", "-k", "4"), "n must be"),
    "no number": (("space", "matmul", "-m", "4k", "-n", "4", "-k", "4"), "'4k' is not a whole number"),
    "a fraction": (("space", "matmul", "-m", "4.5", "-n", "4", "-k", "4"), "4.5"),
    "zero batch": (("space", "matmul", *SMALL, "--batch", "0"), "batch"),
    "unknown type": (("space", "matmul", *SMALL, "--dtype", "f64"), "e4m3, e5m2, i8, mxf8, mxf4 or nvf4"),
    "unknown order": (("space", "matmul", *SMALL, "--order-a", "diagonal"), "row or col"),
    "unknown epilogue": (("space", "matmul", *SMALL, "--epilogue", "tanh"), "gelu"),
    "unsupported combination": (("space", "matmul", *SMALL, "--dtype", "f16", "--precision", "ieee"), "precision"),
    "unknown device": (("space", "matmul", *SMALL, "--device", "h2x"), "h200"),
    "unknown option": (("space", "matmul", *SMALL, "--frobnicate"), "--frobnicate"),
    "surplus argument": (("space", "matmul", *SMALL, "more"), "more"),
    "negative sample": (("space", "matmul", *SMALL, "--sample", "-1"), "--sample"),
    "negative seed": (("space", "matmul", *SMALL, "--sample", "1", "--seed", "-1"), "--seed"),
    "too many samples": (("space", "matmul", *SMALL, "--sample", "99999999999999"), "at most 100,000"),
    "far too many digits": (("space", "matmul", *SMALL, "--sample", "9" * 5000), "not a whole number"),
    "space, seed too large": (("space", "matmul", *SMALL, "--seed", str(2**40)), "--seed"),
    "schedule file missing": (("space", "matmul", *SMALL, "--explain", "none.json"), "none.json"),
    "no trials": (("tune", "matmul", *SMALL, "--db", "b.db", "--trials", "0"), "--trials"),
    "negative trials": (("tune", "matmul", *SMALL, "--db", "b.db", "--trials", "-5"), "--trials"),
    "too many trials": (("tune", "matmul", *SMALL, "--db", "b.db", "--trials", "9" * 400), "at most 1,000,000,000"),
    "too many workers": (("tune", "matmul", *SMALL, "--db", "b.db", "--workers", "99999"), "at most 1,024"),
    "unknown backend": (("tune", "matmul", *SMALL, "--db", "b.db", "--backend", "hip"), "estimate"),
    "unknown sampler": (("tune", "matmul", *SMALL, "--db", "b.db", "--sampler", "cma"), "evolution"),
    "seed too large": (("tune", "matmul", *SMALL, "--db", "b.db", "--seed", str(2**40)), "seed"),
    "no workers": (("tune", "matmul", *SMALL, "--db", "b.db", "--workers", "0"), "--workers"),
    "tune on an unknown device": (("tune", "matmul", *SMALL, "--db", "b.db", "--device", "h2x"), "h200"),
    "best in a missing file": (("best", "matmul", "--db", "none.db"), "none.db"),
    "best, half a problem": (("best", "matmul", "-m", "3", "--db", "none.db"), "-n and -k"),
    "verify nothing": (("verify", "matmul", *SMALL, "--sample", "0"), "--sample"),
    "verify too much": (("verify", "matmul", *SMALL, "--sample", "99999999999999"), "at most 100,000"),
    "verify, too many workers": (("verify", "matmul", *SMALL, "--workers", "99999"), "at most 1,024"),
    "verify no problem": (("verify", "matmul"), "-m, -n and -k"),
    "verify a missing file": (("verify", "matmul", "--db", "none.db"), "none.db"),
    "verify, no workers": (("verify", "matmul", *SMALL, "--workers", "-1"), "--workers"),
}


@pytest.mark.parametrize("json_wanted", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_changes_nothing(run: Run, name: str, json_wanted: bool) -> None:
    arguments, told = BAD[name]
    status, out, err = run(*arguments, *(("--json",) if json_wanted and len(arguments) > 2 else ()))
    assert status == 2
    assert out == ""
    assert err.startswith("autosched: ") and err.count("\n") == 1 and err.endswith("\n")
    assert told in err and len(err) < 800
    assert os.listdir() == []


@pytest.mark.parametrize("command", ["tune", "best", "verify"])
def test_a_foreign_database_is_refused_and_left_alone(run: Run, command: str) -> None:
    Path("notes.txt").write_text("not a database")
    status, out, err = run(command, "matmul", *SMALL, "--db", "notes.txt")
    assert (status, out) == (2, "")
    assert err.startswith("autosched: ") and err.count("\n") == 1
    assert Path("notes.txt").read_text() == "not a database"
    assert os.listdir() == ["notes.txt"]


def test_a_real_process_has_the_same_manners(tmp_path: Path) -> None:
    done = process("tune", "matmul", *SMALL, "--trials", "0", "--db", "b.db", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "autosched: --trials must be at least 1, got 0\n"
    assert list(tmp_path.iterdir()) == []


def test_a_bug_stays_a_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("a bug of ours")

    monkeypatch.setattr("search_spaces.spaces.space.Space.count", broken)
    with pytest.raises(ValueError, match="a bug of ours"):
        run("space", "matmul", *SMALL)


def test_ctrl_c_is_a_line_and_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("search_spaces.spaces.space.Space.count", stopped)
    assert run("space", "matmul", *SMALL) == (130, "", "autosched: stopped\n")


# -- an operator is all it takes ---------------------------------------------------------------------------------------


def test_a_new_operator_needs_no_change_here(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []

    def problem(**fields: Any) -> Matmul:
        given.append(fields)
        return PROBLEM

    other = Operator(
        name="outer",
        summary="y = a @ x",
        options=(
            Option("height", ("-r", "--rows"), int, "rows of a"),
            Option("device", ("--layout",), str, "a name that a command has too", "row", ("row", "col")),
        ),
        make=problem,
        from_json=Matmul.from_json,
    )
    monkeypatch.setattr(app, "operators", lambda: (operator("matmul"), other))
    status, out, _ = run("space", "outer", "--rows", "8", "--layout", "col", "--device", "a100", "--json")
    assert status == 0
    assert json.loads(out)["device"] == "a100"
    assert given == [{"height": 8, "device": "col"}]
    assert run("space", "outer", "-r", "8")[0] == 0
    assert given[1] == {"height": 8}, "what is left out has the default of the problem"
    assert "y = a @ x" in run("best", "outer", "--help")[1]
    assert "matmul, outer" in run("tune", "conv")[2]


# -- doctor -----------------------------------------------------------------------------------------------------------


def test_doctor_lists_what_is_here(run: Run) -> None:
    status, out, _ = run("doctor")
    assert status == 0
    for word in (
        "GPU",
        "NVIDIA driver",
        "NVRTC",
        "cupy",
        "host compiler",
        "optuna",
        "xgboost",
        "cache",
        "--backend cuda",
    ):
        assert word in out


def test_doctor_says_how_to_get_what_is_missing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_nvrtc() -> str:
        raise NvrtcMissing("not installed")

    def without_psycopg(name: str) -> str:
        if name == "psycopg":
            raise PackageNotFoundError(name)
        return "1.2"

    monkeypatch.setattr(doctor_module, "loaded_version", no_nvrtc)
    monkeypatch.setattr(doctor_module, "cuda_available", lambda: (False, "no driver"))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setattr(doctor_module, "version", without_psycopg)
    status, out, err = run("doctor", "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    parts = {p["name"]: p for p in found["parts"]}
    assert parts["NVRTC"]["version"] is None and "pip install" in parts["NVRTC"]["note"]
    assert parts["cupy"]["version"] is None and "pip install" in parts["cupy"]["note"]
    assert parts["host compiler"]["version"] is None and "install" in parts["host compiler"]["note"]
    assert (found["gpus"], found["no_gpu_reason"]) == ([], "no driver")
    abilities = {a["name"]: a for a in found["abilities"]}
    assert (
        not abilities["tune --backend estimate"]["runs"]
        and "pip install" in abilities["tune --backend estimate"]["note"]
    )
    assert not abilities["verify"]["runs"] and abilities["space, best"]["runs"]
    assert abilities["--db postgresql://..."]["note"] == "pip install 'autosched[postgresql]'"
    assert abilities["--plot, --picture"]["note"] == "matplotlib 1.2"
    assert run("doctor")[0] == 0


def test_doctor_says_that_the_row_of_a_gpu_is_derived(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"name": b"NVIDIA GeForce RTX 4070 Unknown", "totalGlobalMem": 12 * 2**30, "major": 8, "minor": 9}
    cupy = ModuleType("cupy")
    cupy.__spec__ = ModuleSpec("cupy", None)
    cupy.cuda = SimpleNamespace(  # type: ignore[attr-defined]
        runtime=SimpleNamespace(getDeviceCount=lambda: 1, getDeviceProperties=lambda number: told)
    )
    row = dataclasses.replace(device("rtx4070"), name="rtx4070_unknown", derived=True)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(doctor_module, "cuda_available", lambda: (True, ""))
    monkeypatch.setattr(doctor_module, "cuda_device", lambda number: row)
    (gpu,) = json.loads(run("doctor", "--json")[1])["gpus"]
    assert (gpu["device"], gpu["note"]) == ("rtx4070_unknown", "derived from the driver's figures and sm_89")
    assert "derived from the driver's figures" in " ".join(run("doctor")[1].split())


# -- space ------------------------------------------------------------------------------------------------------------


def test_space_json_says_what_the_space_is(run: Run) -> None:
    status, out, err = run("space", "matmul", *SMALL, "--sample", "3", "--seed", "5", "--device", "a100", "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    space = template("matmul").space(PROBLEM, device("a100"))
    assert (found["raw"], found["legal"]) == (space.raw_count, space.count())
    assert found["problem"] == PROBLEM.to_json()
    assert [t["name"] for t in found["templates"]] == [t.name for t in templates() if "matmul" in t.operators]
    (made,) = (t for t in found["templates"] if t["name"] == "matmul")
    assert (made["version"], made["why_not"]) == (template("matmul").version, None)
    assert (made["raw"], made["legal"]) == (space.raw_count, space.count())
    assert {p["name"]: tuple(p["values"]) for p in made["parameters"]} == {p.name: p.values for p in space.parameters}
    assert {r["name"]: r["rejects"] for r in made["rules"]} == {r.rule: r.count for r in space.rejects()}
    valid = {rule.name for rule in space.constraints}
    assert {r["name"]: r["kind"] for r in made["rules"]} == {
        rule.name: "valid" if rule.name in valid else "pruning" for rule in space.rules
    }
    drawn = TemplateSet([template("matmul")]).space(PROBLEM, device("a100")).sample(3, 5)
    assert found["samples"] == [{"template": "matmul", "schedule": s.to_json()} for s in drawn]


def test_space_says_why_a_template_is_out(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    other = dataclasses.replace(template("matmul"), name="newer", supports=lambda problem, device: "it needs sm_90")
    found = ((template("matmul"), None), (other, "it needs sm_90"))
    monkeypatch.setattr("autosched.cli.commands.space.candidates", lambda problem, device: found)
    status, out, _ = run("space", "matmul", *SMALL, "--json")
    assert status == 0
    _, left_out = json.loads(out)["templates"]
    assert left_out == {"name": "newer", "version": other.version, "why_not": "it needs sm_90"}
    assert json.loads(out)["legal"] == templates_for(PROBLEM, device("h200")).space(PROBLEM, device("h200")).count()
    text = run("space", "matmul", *SMALL)[1]
    assert "template newer" in text and "not for this problem: it needs sm_90" in text


def test_space_text_has_the_counts_the_rules_and_the_samples(run: Run) -> None:
    status, out, _ = run("space", "matmul", *SMALL, "--sample", "2")
    space = template("matmul").space(PROBLEM, device("h200"))
    assert status == 0
    assert f"{space.count():,}" in out
    for name in (*(p.name for p in space.parameters), *(r.name for r in space.rules)):
        assert name in out
    assert "sample 2 of 2, seed 0" in out


def test_explain_accepts_a_legal_schedule_and_names_the_rules_of_an_illegal_one(run: Run) -> None:
    good = schedule()
    Path("good.json").write_text(json.dumps(good.to_json()))
    assert run("space", "matmul", *SMALL, "--explain", "good.json")[0] == 0
    bad = good.replace(sg_layout_m=8, sg_layout_n=8)
    Path("bad.json").write_text(json.dumps({"schedule": bad.to_json(), "device": "h200"}))
    expected = template("matmul").space(PROBLEM, device("h200")).explain(bad)
    assert expected
    status, out, _ = run("space", "matmul", *SMALL, "--explain", "bad.json", "--json")
    assert status == 1
    assert json.loads(out)["violations"] == [{"rule": v.rule, "reason": v.reason} for v in expected]
    assert expected[0].rule in run("space", "matmul", *SMALL, "--explain", "bad.json")[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ("space", "matmul", *SMALL, "--template", "matmul", "--sample", "1"),
        ("space", "matmul", *SMALL, "--explain", "good.json"),
        ("best", "matmul", *SMALL, "--db", "b.db"),
        ("verify", "matmul", *SMALL, "--db", "b.db"),
    ],
    ids=lambda a: f"{a[0]} {a[-2]}",
)
def test_explain_reads_what_our_commands_print(
    run: Run, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    database(Path("b.db"), record())
    Path("good.json").write_text(json.dumps(schedule().to_json()))
    monkeypatch.setattr("autosched.cli.commands.proofs.verify.emulate_all", lambda *_, **__: iter([emulated()]))
    monkeypatch.setattr("autosched.cli.commands.proofs.verify.check_ready", lambda: None)
    status, out, _ = run(*arguments, "--json")
    assert status == 0
    (drawn,) = TemplateSet([template("matmul")]).space(PROBLEM, device("h200")).sample(1, 0)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(out.encode())))
    status, out, err = run("space", "matmul", *SMALL, "--explain", "-", "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["schedule"] == (drawn if "--sample" in arguments else schedule()).to_json()
    assert json.loads(out)["template"] == "matmul"


def test_explain_refuses_several_schedules(run: Run) -> None:
    Path("s.json").write_text(run("space", "matmul", *SMALL, "--sample", "3", "--json")[1])
    status, out, err = run("space", "matmul", *SMALL, "--explain", "s.json")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "s.json holds 3 schedules" in err and "schedule, samples, best or candidates" in err


def test_explain_refuses_a_schedule_of_a_template_that_is_not_for_the_problem(run: Run) -> None:
    Path("s.json").write_text(json.dumps({"template": "copy", "schedule": schedule().to_json()}))
    status, out, err = run("space", "matmul", *SMALL, "--explain", "s.json")
    assert (status, out) == (2, "")
    known = "matmul, wgmma_matmul, wgmma_matmul_transposed or tma_matmul"
    assert err == f"autosched: the schedule in s.json is of copy: give one of {known}\n"


NO_SCHEDULE = {
    "nothing": ("", "is not JSON"),
    "empty list": ("[]", "holds no schedules"),
    "empty object": ("{}", "holds no schedules"),
    "number": ("3", "holds no schedules"),
    "no best": ('{"best": null}', "holds no schedules"),
    "one parameter": ('{"tile_m": 16}', "lacks tile_n, "),
    "nonsense": ("nonsense", "is not JSON"),
    "deep list": ("[" * 100_000, "is not JSON"),
    "deep and whole list": ("[" * 900 + "]" * 900, "s.json"),
    "deep object": ('{"schedule":' * 900 + "1" + "}" * 900, "s.json"),
}


@pytest.mark.parametrize("name", NO_SCHEDULE)
def test_explain_refuses_what_is_no_schedule(run: Run, name: str) -> None:
    text, told = NO_SCHEDULE[name]
    Path("s.json").write_text(text)
    status, out, err = run("space", "matmul", *SMALL, "--explain", "s.json")
    assert (status, out) == (2, "")
    assert err.count("\n") == 1 and told in err


@pytest.mark.parametrize("value", [[2], {"a": 1}, None, True, 2.0, "2", 10**30])
def test_explain_refuses_a_value_of_another_type(run: Run, value: object) -> None:
    Path("s.json").write_text(json.dumps({**schedule().to_json(), "stages": value}))
    status, out, err = run("space", "matmul", *SMALL, "--explain", "s.json")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"autosched: parameter stages cannot be {value!r}: use ")


def test_explain_refuses_a_parameter_that_there_is_not(run: Run) -> None:
    Path("s.json").write_text(json.dumps({**schedule().to_json(), "warp_speed": 9}))
    status, _, err = run("space", "matmul", *SMALL, "--explain", "s.json")
    assert status == 2 and "warp_speed, which matmul has not" in err


@pytest.mark.parametrize("content", [b"\xff\xfe{", b"\0"])
def test_explain_refuses_what_is_no_text(run: Run, content: bytes) -> None:
    Path("s.json").write_bytes(content)
    status, _, err = run("space", "matmul", *SMALL, "--explain", "s.json")
    assert (status, err.count("\n")) == (2, 1)


def test_explain_refuses_a_value_outside_its_domain(run: Run) -> None:
    Path("s.json").write_text(json.dumps(schedule().replace(tile_m=17).to_json()))
    status, _, err = run("space", "matmul", *SMALL, "--explain", "s.json")
    assert status == 2
    assert "tile_m cannot be 17" in err


# -- best -------------------------------------------------------------------------------------------------------------


def test_best_prints_time_provenance_and_schedule(run: Run) -> None:
    path = database(Path("b.db"), record(2e-6), record(None, chosen=schedule(1)), record(1e-6, chosen=schedule(2)))
    status, out, err = run("best", "matmul", *SMALL, "--db", str(path))
    assert (status, err) == (0, "")
    assert "1.000 us" in out and "24.58 GB/s (1% of the bandwidth of DRAM)" in out and "bound by" in out
    assert "estimated by a model, not measured" in out
    assert "2026-01-02 03:04 UTC" in out and "3 estimated, 2 of them ok" in out
    for name, value in schedule(2).items:
        assert name in out and str(value) in out


def test_best_json_holds_the_whole_record(run: Run) -> None:
    path = database(Path("b.db"), record(2e-6))
    status, out, _ = run("best", "matmul", *SMALL, "--db", str(path), "--json")
    assert status == 0
    (best,) = json.loads(out)["best"]
    assert best["schedule"] == schedule().to_json()
    assert best["provenance"] == "estimated"
    assert best["timing"]["median"] == 2e-6
    assert best["flops_per_second"] == pytest.approx(2 * 64**3 / 2e-6)


def test_best_keeps_devices_and_provenances_apart(run: Run) -> None:
    path = database(
        Path("b.db"),
        record(1e-6),
        record(5e-6, provenance=Provenance.MEASURED, chosen=schedule(1)),
        record(2e-6, on="a100"),
    )
    _, out, _ = run("best", "matmul", *SMALL, "--db", str(path), "--json")
    found = {b["device"]: b for b in json.loads(out)["best"]}
    assert found["h200"]["provenance"] == "measured" and found["h200"]["timing"]["median"] == 5e-6
    assert found["a100"]["provenance"] == "estimated"
    _, out, _ = run("best", "matmul", *SMALL, "--db", str(path), "--device", "A100", "--json")
    assert [b["device"] for b in json.loads(out)["best"]] == ["a100"]


def test_best_without_a_problem_lists_all_of_them(run: Run) -> None:
    other = Matmul(128, 64, 32, a="bf16", b="bf16", out="bf16", order_a="col")
    theirs = template("matmul").space(other, device("h200")).sample(1, 0)[0]
    path = database(Path("b.db"), record(2e-6), record(3e-6, problem=other, chosen=theirs))
    status, out, err = run("best", "matmul", "--db", str(path))
    assert (status, err) == (0, "")
    rows = [line for line in out.splitlines() if "estimated" in line]
    assert len(rows) == 2
    assert "2.000 us" in rows[0] and "3.000 us" in rows[1] and "128" in rows[1] and "bf16" in rows[1]


@pytest.mark.parametrize(
    "arguments", [("-m", "1", "-n", "1", "-k", "1"), (*SMALL, "--device", "a100"), (*SMALL, "--order-a", "col")]
)
def test_best_says_no_where_there_is_none(run: Run, arguments: tuple[str, ...]) -> None:
    path = database(Path("b.db"), record(2e-6), record(None, problem=Matmul(1, 1, 1)))
    status, out, err = run("best", "matmul", *arguments, "--db", str(path))
    assert (status, out) == (1, "")
    assert err.startswith("autosched: ") and err.count("\n") == 1
    status, out, err = run("best", "matmul", *arguments, "--db", str(path), "--json")
    assert (status, json.loads(out)["best"], err.count("\n")) == (1, [], 1)


def test_best_takes_an_unknown_device_for_a_mistake(run: Run) -> None:
    path = database(Path("b.db"), record(2e-6))
    status, _, err = run("best", "matmul", *SMALL, "--db", str(path), "--device", "h2x")
    assert status == 2
    assert "unknown device 'h2x'" in err and "b.db holds h200" in err


def test_best_says_that_a_row_was_derived(run: Run) -> None:
    note = "derived from the driver's figures and sm_89; unconfirmed: rates"
    path = database(
        Path("b.db"), dataclasses.replace(record(2e-6), fingerprint=canonical_json({"sm": "sm_89", "derived": note}))
    )
    status, out, _ = run("best", "matmul", *SMALL, "--db", str(path))
    assert status == 0
    assert note in " ".join(out.split())


def test_devices_lists_every_row(run: Run) -> None:
    status, out, _ = run("devices", "--json")
    assert status == 0
    assert [row["name"] for row in json.loads(out)["devices"]] == [row.name for row in DEVICES]
    status, out, _ = run("devices")
    assert status == 0 and all(row.name in out for row in DEVICES)
    assert run("devices", "--json", "--markdown")[0] == 2


def test_best_changes_nothing(run: Run) -> None:
    path = database(Path("b.db"), record(2e-6))
    before = path.read_bytes(), path.stat().st_mtime_ns
    path.chmod(0o444)
    assert run("best", "matmul", "--db", str(path))[0] == 0
    assert run("best", "matmul", *SMALL, "--db", str(path), "--json")[0] == 0
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert os.listdir() == ["b.db"]
