"""Static checks of files that can only run on other machines."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import forked_python
import pytest
import yaml
from cases import representative

REPOSITORY = Path(__file__).parents[2]


def test_the_container_copies_existing_files() -> None:
    text = (REPOSITORY / "Dockerfile").read_text()
    allowed = {line[1:] for line in (REPOSITORY / ".dockerignore").read_text().split() if line.startswith("!")}
    copied = {name for line in re.findall(r"^COPY (?!--)(.*)$", text, re.MULTILINE) for name in line.split()[:-1]}
    assert copied == allowed
    assert all((REPOSITORY / name).exists() for name in copied)
    stages = re.findall(r"^FROM (\S+) AS (\w+)$", text, re.MULTILINE)
    assert [name for _, name in stages] == ["wheel", "cpu", "cuda"]


@pytest.mark.parametrize(("workflow", "programs"), [("ci", {".ci/client", ".ci/run", ".ci/wheel"}), ("nightly", set())])
def test_workflows_only_run_programs_of_the_ci_folder(workflow: str, programs: set[str]) -> None:
    read = yaml.safe_load((REPOSITORY / ".github" / "workflows" / f"{workflow}.yml").read_text())
    runs = [step["run"].split()[0] for job in read["jobs"].values() for step in job["steps"] if "run" in step]
    assert {run for run in runs if run.startswith(".ci/")} == programs
    assert all(os.access(REPOSITORY / program, os.X_OK) for program in programs)


@pytest.mark.parametrize(
    ("words", "expected"),
    representative(
        [
            ("autosched re", {"replay", "report"}),
            ("autosched tune soft", {"softmax"}),
            ("autosched report --ag", {"--against"}),
            ("autosched tune softmax --device h2", {"h200", "h200_nvl", "h20", "h20_3e"}),
            ("autosched best matmul --device rtx20", {"rtx2060", "rtx2070", "rtx2080", "rtx2080ti"}),
        ],
        "autosched re-",
        "autosched report",
        "autosched tune softmax --device",
        ids=lambda case: f"{case[0]}-",
    ),
)
def test_the_shell_completes_commands_options_and_devices(words: str, expected: set[str]) -> None:
    environment = {
        **os.environ,
        "_AUTOSCHED_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = forked_python.run(
        [sys.executable, "-c", "import sys; from autosched.cli import main; sys.exit(main())"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert set(done.stdout.split()) == expected
