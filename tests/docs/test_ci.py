"""Every command of docs/how-to/ci.md and of the workflow on the page is run, in order, in one folder."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml
from needs import needs_compiler, needs_nvrtc
from snippets.kernel_file import FILE, SOURCE

from autosched.cli import main
from measurements.store.store import Store
from search_spaces.operators.transpose import Transpose

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "how-to" / "ci.md"
WORKFLOW = REPOSITORY / "examples" / "workflows" / "tuned-schedules.yml"
ACTION = REPOSITORY / "action.yml"
PLUGINS = "-p autosched.regression.pytest_plugin -p no:xdist -p no:cacheprovider -p no:timeout"

pytestmark = [needs_nvrtc, needs_compiler]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the database made by the first command of the page."""
    root = tmp_path_factory.mktemp("ci")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert main(shlex.split(blocks("sh")[0])[1:]) == 0
    return root


@pytest.fixture(scope="module")
def environment(folder: Path) -> dict[str, str]:
    """Return environment variables with which a shell finds autosched and its pytest plugin.

    The tests then need no installation of autosched.
    """
    tools = folder / "bin"
    tools.mkdir()
    starts = {"autosched": f'exec "{sys.executable}" -m autosched "$@"', "python": f'exec "{sys.executable}" "$@"'}
    for name, line in starts.items():
        (tools / name).write_text(f"#!/bin/bash\n{line}\n")
        (tools / name).chmod(0o755)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(REPOSITORY), "PYTEST_ADDOPTS": PLUGINS, "COLUMNS": "120"}


def shell(script: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a shell script with the options that GitHub Actions uses for a step."""
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def steps(workflow: dict[str, Any], job: str) -> dict[str, str]:
    return {step["name"]: step["run"] for step in workflow["jobs"][job]["steps"] if "run" in step}


def test_every_command_of_the_page_works(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands run in this process, since starting one process per command is slow."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTEST_ADDOPTS", PLUGINS)
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(lines) == 5
    for line in lines[1:]:
        program, *arguments = shlex.split(line)
        if program == "autosched":
            assert main(arguments) == 0, f"{line}\n{capsys.readouterr()}"
        else:
            assert (program, *arguments[:2]) == ("python", "-m", "pytest")
            assert pytest.main([*arguments[2:], "--rootdir", str(folder)]) == 0, f"{line}\n{capsys.readouterr()}"
    assert (folder / "check.xml").read_bytes().startswith(b"<?xml")
    assert "no confirmed regression: 1 same" in (folder / "summary.md").read_text()
    with Store.open(folder / "best.db", create=False) as store:
        entry = store.guard(Transpose(rows=64, columns=64), "h200")
    assert entry is not None and entry.max_slowdown == 0.05


def test_the_step_of_the_workflow_runs_in_a_shell(folder: Path, environment: dict[str, str]) -> None:
    run = steps(yaml.safe_load(WORKFLOW.read_text()), "static")
    summary = folder / "step.md"
    done = shell(run["check what needs no GPU"], folder, {**environment, "GITHUB_STEP_SUMMARY": str(summary)})
    assert done.returncode == 0, done.stderr
    assert "no confirmed regression" in summary.read_text() and (folder / "benchmark.json").exists()


def act(inputs: dict[str, str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the action's shell step with these inputs."""
    action = yaml.safe_load(ACTION.read_text())
    (step,) = action["runs"]["steps"]
    assert "${{" not in step["run"], "no input is inserted into the text of the script"
    values = {name: inputs.get(name, entry.get("default", "")) for name, entry in action["inputs"].items()}
    filled = {k: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: values[m[1]], v) for k, v in step["env"].items()}
    return shell(step["run"], folder, {**environment, **filled})


SLOW = """\
import os
def f(x):
    while "SLOW" in os.environ:
        pass
    return x
"""


def test_the_action_reports_all_entries_despite_a_slow_reference(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.py").write_text(SLOW)
    (tmp_path / "k.cu").write_text(SOURCE)
    for name, limit in (("quick", ""), ("slow", "time_limit = 1\n")):
        reference = "" if name == "quick" else f'[reference]\npython = "r.py:f"\n{limit}'
        (tmp_path / f"{name}.toml").write_text(FILE.replace("[kernel]", f'[kernel]\nname = "{name}"') + reference)
        tuned = ["tune", "--kernel", f"{name}.toml", "--device", "a100", "--trials", "1", "--db", "best.db"]
        assert main([*tuned, "--sampler", "random"]) == 0
    inputs = {"database": "best.db", "kernels": "quick.toml\nslow.toml\n", "junit": "check.xml"}
    summary = {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    done = act(inputs, tmp_path, {**environment, **summary, "SLOW": "1"})
    assert done.returncode == 0, done.stderr
    cases = {case.get("name", "").split()[0]: case for case in ET.parse("check.xml").iter("testcase")}
    assert cases.keys() == {"quick", "slow"}
    skipped = cases["slow"].find("skipped")
    assert cases["quick"].find("skipped") is None and cases["quick"].find("failure") is None
    assert skipped is not None and "1 CPU seconds" in skipped.get("message", "")
    assert "1 same" in (tmp_path / "summary.md").read_text() and "::warning" in done.stderr


def test_the_action_reports_a_check_that_cannot_begin(tmp_path: Path, environment: dict[str, str]) -> None:
    summary = tmp_path / "summary.md"
    inputs = {"database": "no.db", "junit": "check.xml"}
    done = act(inputs, tmp_path, {**environment, "GITHUB_STEP_SUMMARY": str(summary)})
    assert done.returncode == 2
    (case,) = ET.parse(tmp_path / "check.xml").iter("testcase")
    assert case.find("error") is not None and "no.db" in summary.read_text()


def test_the_action_passes_its_inputs_on_as_text(tmp_path: Path, environment: dict[str, str]) -> None:
    """The step calls a fake autosched that only prints its arguments."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "autosched").write_text('#!/bin/bash\nprintf "<%s>" "$@"\n')
    (tools / "autosched").chmod(0o755)
    inputs = {"database": "my best.db; touch hacked $(touch hacked)", "kernels": "a.toml\nb c.toml\n"}
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"

    def run_with(inputs: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return act(inputs, tmp_path, {**environment, "PATH": path})

    assert run_with(inputs).stdout == (
        "<check><--db><my best.db; touch hacked $(touch hacked)><--max-slowdown><1%><--junit><autosched-check.xml>"
        "<--github><--static><--kernel><a.toml><--kernel><b c.toml>"
    )
    assert not (tmp_path / "hacked").exists()
    assert run_with({"configs": "my configs", "format": "sglang", "device": "h100"}).stdout == (
        "<check><my configs><--junit><autosched-check.xml><--github><--format><sglang><--device><h100>"
    )
    nothing = run_with({})
    assert nothing.returncode == 2 and nothing.stdout.startswith("::error title=autosched check::name what is checked")


def test_the_gpu_half_of_the_workflow_uses_options_of_check() -> None:
    """There is no GPU here, so only check that the command accepts the options."""
    from autosched.cli.commands.check import check

    check_options = {f"--{name.replace('_', '-')}" for name in check.__annotations__}
    line = steps(yaml.safe_load(WORKFLOW.read_text()), "times")["check times against them"]
    line_options = set(re.findall(r"--[\w-]+", line))
    assert "autosched check" in line and "--baseline" in line_options <= check_options
