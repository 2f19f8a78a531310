"""The script setup.py works in an environment without other packages."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

from needs import needs_compiler

REPOSITORY = Path(__file__).parents[2]


@needs_compiler
def test_the_emulator_is_compiled_without_other_packages() -> None:
    setup = ast.parse((REPOSITORY / "setup.py").read_text())
    (code,) = (
        ast.literal_eval(node.value)
        for node in setup.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "COMPILE"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-S", "-B", "-c", code]  # -S hides installed packages
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
