"""During a search a problem passes through few modules, and seldom from a lower layer back to a higher layer.

``pytest -rP tests/autosched/tuning/test_problem_walk.py`` prints the modules in order;
docs/contributing/architecture.md describes the method.
"""

from __future__ import annotations

from pathlib import Path

from argument_walk import TEMPLATES, Stop, Walk, followed
from needs import needs_nvrtc

import autosched

MOST_FILES, MOST_CLIMBS = 20, 5


@needs_nvrtc
def test_the_problem_of_a_search_passes_few_files(tmp_path: Path) -> None:
    problem = autosched.Matmul(m=64, n=64, k=64)
    with followed(problem) as walk:
        result = autosched.tune(
            problem, trials=3, device="h200", backend="estimate", database=tmp_path / "a.db", progress=False
        )
    print(walk)
    assert result.verification.startswith("ok"), "the walk includes the full verification of the best"
    assert walk.files >= {"autosched/tuning/tune.py", "autosched/verify/schedule_runs.py", TEMPLATES}
    assert len(walk.files) <= MOST_FILES and len(walk.climbs) <= MOST_CLIMBS


def test_a_climb_is_a_step_to_a_package_above() -> None:
    files = ("autosched/a.py", "search_spaces/templates/x/a.py", "search_spaces/templates/y/b.py", "cost_models/c.py")
    walk = Walk([Stop(file, "f") for file in (*files, "measurements/d.py", "autosched/a.py")])
    assert walk.files == {"autosched/a.py", TEMPLATES, "cost_models/c.py", "measurements/d.py"}
    assert [after.file for _, after in walk.climbs] == ["cost_models/c.py", "autosched/a.py"]
