"""Output of `space` for a space, and of `space --explain` for a schedule."""

import dataclasses
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from store_trials import PROBLEM, database
from store_trials import matmul_schedule as schedule
from store_trials import matmul_trial as make_trial

from autosched.verify.verdict import Subject, Verdict
from measurements.emulator import Emulation
from search_spaces.catalogue import template, templates, templates_for
from search_spaces.hardware.devices import device
from search_spaces.templates.template import TemplateSet

Run = Callable[..., tuple[int, str, str]]

SMALL = ("-m", "64", "-n", "64", "-k", "64")


def emulated() -> Verdict:
    run = Emulation("ok", {}, (), (), (), compile_seconds=0.1, run_seconds=0.1)
    return Verdict(Subject(PROBLEM, schedule()), "ok", "", 0.5, 1e-3, run)


def test_space_json_describes_the_space(run: Run) -> None:
    status, out, err = run("space", "matmul", *SMALL, "--sample", "3", "--seed", "5", "--device", "a100", "--json")
    assert (status, err) == (0, "")
    document = json.loads(out)
    space = template("matmul").space(PROBLEM, device("a100"))
    assert (document["raw"], document["legal"]) == (space.raw_count, space.count())
    assert document["problem"] == PROBLEM.to_json()
    assert [t["name"] for t in document["templates"]] == [t.name for t in templates() if "matmul" in t.operators]
    (entry,) = (t for t in document["templates"] if t["name"] == "matmul")
    assert (entry["version"], entry["why_not"]) == (template("matmul").version, None)
    assert (entry["raw"], entry["legal"]) == (space.raw_count, space.count())
    assert {p["name"]: tuple(p["values"]) for p in entry["parameters"]} == {p.name: p.values for p in space.parameters}
    assert {r["name"]: r["rejects"] for r in entry["rules"]} == {r.rule: r.count for r in space.rejects()}
    valid = {rule.name for rule in space.constraints}
    assert {r["name"]: r["kind"] for r in entry["rules"]} == {
        rule.name: "valid" if rule.name in valid else "pruning" for rule in space.rules
    }
    schedules = TemplateSet([template("matmul")]).space(PROBLEM, device("a100")).sample(3, 5)
    assert document["samples"] == [{"template": "matmul", "schedule": s.to_json()} for s in schedules]


def test_space_reports_why_a_template_is_excluded(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    other = dataclasses.replace(template("matmul"), name="newer", supports=lambda problem, device: "it needs sm_90")
    candidates = ((template("matmul"), None), (other, "it needs sm_90"))
    monkeypatch.setattr("autosched.cli.commands.space.candidates", lambda problem, device: candidates)
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


def test_explain_reports_the_rules_that_an_illegal_schedule_breaks(run: Run) -> None:
    good = schedule()
    Path("good.json").write_text(json.dumps(good.to_json()))
    assert run("space", "matmul", *SMALL, "--explain", "good.json")[0] == 0
    bad = good.replace(subgroups_m=8, subgroups_n=8)
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
def test_explain_reads_the_output_of_other_commands(
    run: Run, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    database(Path("b.db"), make_trial())
    Path("good.json").write_text(json.dumps(schedule().to_json()))
    monkeypatch.setattr(
        "autosched.cli.commands.verification.schedules.emulate_all", lambda *_, **__: iter([emulated()])
    )
    monkeypatch.setattr("autosched.cli.commands.verification.schedules.check_ready", lambda: None)
    status, out, _ = run(*arguments, "--json")
    assert status == 0
    (drawn,) = TemplateSet([template("matmul")]).space(PROBLEM, device("h200")).sample(1, 0)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(out.encode())))
    status, out, err = run("space", "matmul", *SMALL, "--explain", "-", "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["schedule"] == (drawn if "--sample" in arguments else schedule()).to_json()
    assert json.loads(out)["template"] == "matmul"


def test_explain_rejects_several_schedules(run: Run) -> None:
    Path("s.json").write_text(run("space", "matmul", *SMALL, "--sample", "3", "--json")[1])
    status, out, err = run("space", "matmul", *SMALL, "--explain", "s.json")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "s.json has 3 schedules" in err and "schedule, samples, best or candidates" in err


def test_explain_rejects_a_schedule_of_an_unsupported_template(run: Run) -> None:
    Path("s.json").write_text(json.dumps({"template": "copy", "schedule": schedule().to_json()}))
    status, out, err = run("space", "matmul", *SMALL, "--explain", "s.json")
    assert (status, out) == (2, "")
    names = "matmul, wgmma_matmul, wgmma_matmul_transposed or tma_matmul"
    assert err == f"autosched: the schedule in s.json belongs to copy: give one of {names}\n"


NO_SCHEDULE = {
    "nothing": ("", "is not JSON"),
    "empty list": ("[]", "has no schedules"),
    "empty object": ("{}", "has no schedules"),
    "number": ("3", "has no schedules"),
    "no best": ('{"best": null}', "has no schedules"),
    "one parameter": ('{"tile_m": 16}', "no value for tile_n, "),
    "nonsense": ("nonsense", "is not JSON"),
    "deep list": ("[" * 100_000, "is not JSON"),
    "deep and whole list": ("[" * 900 + "]" * 900, "s.json"),
    "deep object": ('{"schedule":' * 900 + "1" + "}" * 900, "s.json"),
}


@pytest.mark.parametrize("name", NO_SCHEDULE)
def test_explain_rejects_invalid_schedules(run: Run, name: str) -> None:
    text, message = NO_SCHEDULE[name]
    Path("s.json").write_text(text)
    status, out, err = run("space", "matmul", *SMALL, "--explain", "s.json")
    assert (status, out) == (2, "")
    assert err.count("\n") == 1 and message in err


@pytest.mark.parametrize("value", [[2], {"a": 1}, None, True, 2.0, "2", 10**30])
def test_explain_rejects_a_value_of_another_type(run: Run, value: object) -> None:
    Path("s.json").write_text(json.dumps({**schedule().to_json(), "stages": value}))
    status, out, err = run("space", "matmul", *SMALL, "--explain", "s.json")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"autosched: parameter stages cannot be {value!r}: use ")


def test_explain_rejects_unknown_parameters(run: Run) -> None:
    Path("s.json").write_text(json.dumps({**schedule().to_json(), "warp_speed": 9}))
    status, _, err = run("space", "matmul", *SMALL, "--explain", "s.json")
    assert status == 2 and "parameters that matmul does not have: warp_speed" in err


@pytest.mark.parametrize("content", [b"\xff\xfe{", b"\0"])
def test_explain_rejects_binary_files(run: Run, content: bytes) -> None:
    Path("s.json").write_bytes(content)
    status, _, err = run("space", "matmul", *SMALL, "--explain", "s.json")
    assert (status, err.count("\n")) == (2, 1)


def test_explain_rejects_a_value_outside_its_domain(run: Run) -> None:
    Path("s.json").write_text(json.dumps(schedule().replace(tile_m=17).to_json()))
    status, _, err = run("space", "matmul", *SMALL, "--explain", "s.json")
    assert status == 2
    assert "tile_m cannot be 17" in err
