"""The tutorial's program is complete, and makes the kernel that it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "tutorial" / "coming-from-kernel-tuner.md"


def test_the_program_of_the_page_runs() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    asked = "from search_spaces.hardware.devices import device\n"
    asked += "space = kernel.template.space(problem, device('a100'))\n"
    asked += "print(space.count(), sorted(problem.metrics({'block_size_x': 64}, 1e-3)))"
    done = subprocess.run([sys.executable, "-c", f"{program}\n{asked}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "4 ['GB/s']"
