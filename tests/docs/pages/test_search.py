"""The examples of docs/explanation/search.md run."""

import re
from pathlib import Path

import optuna

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "search.md"


def test_the_study_of_the_page_finds_its_optimum() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    study = names["study"]
    assert isinstance(study, optuna.Study)
    assert study.best_value < 2 and len(study.trials) == 20
