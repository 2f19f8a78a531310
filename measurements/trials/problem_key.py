"""Parse ``Problem.key()``, the text that identifies a problem in trials, summaries and logs."""

from __future__ import annotations

import json
from typing import Any

from search_spaces.operators.problem import Problem


def problem_of(key: str) -> Problem:
    """Return the problem with this key. Raises ValueError if this version does not know the operator or the format."""
    from search_spaces.catalogue import (
        problem_from_json,
    )  # imported late, because this module imports every operator

    return problem_from_json(json.loads(key))


def fields_of(key: str) -> dict[str, Any]:
    """Return the fields of a problem, including its operator, even if this version does not know the operator.

    The result is empty if the key is not valid JSON.
    """
    try:
        fields = json.loads(key)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def operator_of(key: str) -> str:
    """Return the name of the operator in a key, or ""."""
    operator = fields_of(key).get("operator")
    return operator if isinstance(operator, str) else ""
