"""The steps of docs/tutorial/adding-a-kernel.md work if followed literally with an installed autosched.

Every file on the page is written under the name that precedes the file. All commands run in one new Python
environment, in which the page's commands install the example package ``strips``. The repository is not changed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "tutorial" / "adding-a-kernel.md"
REPOSITORY = PAGE.parents[2]


def files(text: str) -> dict[str, str]:
    """Return the files that a page shows. Each is a code block below the file's name in backticks and a colon."""
    shown = re.findall(r"^`([^`\n]+)`:\n```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return dict(shown)


def commands(text: str) -> list[str]:
    """Return the commands that a page shows, which are the lines of the page's sh blocks."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the variables of a new environment that also has the packages of this environment."""
    venv = tmp_path_factory.mktemp("outsider") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    site_packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(venv), "platbase": str(venv)}))
    ours = Path(sysconfig.get_path("purelib"))
    for name in ("nvidia", "cuda"):  # CUDA libraries are only found in an environment's own packages
        if (ours / name).is_dir():
            (site_packages / name).symlink_to(ours / name)
    # Other packages are imported from the path of this environment. Under a new path, Python would compile the packages
    # again (15 s of CPU time).
    (site_packages / "ours.pth").write_text(f"{REPOSITORY}\n{ours}\n")
    own_setuptools = "sys.argv.insert(2, '--no-build-isolation')"  # otherwise pip downloads setuptools
    for name, first in {"autosched": "", "pip": own_setuptools}.items():
        tool = venv / "bin" / name
        start = f"import runpy, sys\n{first}\nrunpy.run_module({name!r}, run_name='__main__', alter_sys=True)\n"
        tool.write_text(f"#!{venv}/bin/python\n{start}")
        tool.chmod(0o755)
    variables = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME")}
    return {**variables, "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "120"}


def test_the_page_suffices_to_add_a_kernel(environment: dict[str, str], tmp_path: Path) -> None:
    text = PAGE.read_text()
    for name, content in files(text).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    assert len(files(text)) == 8
    outputs: dict[str, str] = {}
    for command in commands(text):
        done = subprocess.run(
            ["bash", "-euc", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        outputs[command] = done.stdout
    listing = next(out for command, out in outputs.items() if "space matmul" in command)
    assert "template strips: each thread computes a strip of one row of out" in listing
    assert "template matmul:" in listing, "built-in templates must be searched, too"
    verified = next(out for command, out in outputs.items() if "verify matmul" in command)
    assert "all 6 pass" in verified
    best = next(out for command, out in outputs.items() if "best matmul" in command)
    assert "strip" in best and "estimated by a model" in best
    own = next(out for command, out in outputs.items() if "verify --kernel" in command)
    assert "all 4 pass" in own
    assert "GB/s" in next(out for command, out in outputs.items() if "best --kernel" in command)
    assert outputs["python axpy/tune_axpy.py"].rstrip().endswith("us, estimated")
