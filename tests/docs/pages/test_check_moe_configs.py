"""Every command of docs/tutorial/check-moe-configs.md runs and prints the output that the page shows."""

# mypy: ignore-errors
from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from needs import needs_compiler

pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")

from autosched.cli import main

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("forked_workers")]

REPOSITORY = Path(__file__).parents[3]
PAGE = (REPOSITORY / "docs" / "tutorial" / "check-moe-configs.md").read_text()
FILE = "E=8,N=7168,device_name=NVIDIA_GeForce_RTX_5090.json"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # Each worker imports torch, which takes seconds.
    monkeypatch.setattr("autosched.integrations.config_files.tuning.pool.usable_cores", lambda: 1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    (content,), (shown,), (check, tests) = blocks("json"), blocks("text"), blocks("sh")
    Path("configs").mkdir()
    path = Path("configs", FILE)
    path.write_text(content)
    assert main(shlex.split(check)[1:]) == 1
    printed = re.sub(r" +", " ", capsys.readouterr().out)
    for line in shown.splitlines():
        # How many bytes a configuration needs depends on the compiler's version.
        words = re.escape(re.sub(r" +", " ", line)).replace(r"\.\.\.", ".*").replace("172,032", r"[\d,]+")
        assert re.search(words, printed), (line, printed)
    assert Path("check.xml").stat().st_size and "BROKEN" in Path("page.md").read_text()

    arguments = shlex.split(tests)[3:]
    plain = [
        f"-p{name}" for name in ("no:cacheprovider", "no:xdist", "no:timeout", "autosched.regression.pytest_plugin")
    ]
    assert pytest.main(["-q", *plain, "--rootdir", str(tmp_path), *arguments]) == 1
    path.write_text(content.replace('"num_stages": 8', '"num_stages": 3'))
    assert pytest.main(["-q", *plain, "--rootdir", str(tmp_path), *arguments]) == 0
    assert main(shlex.split(check)[1:]) == 0


def test_the_action_has_these_inputs() -> None:
    (step,) = [s for s in yaml.safe_load(blocks("yaml")[0]) if "uses" in s]
    action = yaml.safe_load((REPOSITORY / "action.yml").read_text())
    assert step["with"].keys() <= action["inputs"].keys()
    (run,) = action["runs"]["steps"]
    for name in step["with"]:
        assert f"${name.upper()}" in run["run"] and run["env"][name.upper()] == f"${{{{ inputs.{name} }}}}"
