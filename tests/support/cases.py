"""Select the cases of a parametrised test that every run includes; mark the others ``nightly``.

Every run includes at least one case of each mechanism. If it includes a planted fault, it also includes the kernel
without the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def representative(
    cases: Iterable[Any], *names: str, ids: Iterable[str] | Callable[[Any], str] | None = None
) -> list[Any]:
    """Mark all cases ``nightly`` except those whose id begins with one of ``names``.

    Args:
        cases: Values, tuples of values or parameter sets, as ``pytest.mark.parametrize`` takes them.
        names: Prefixes of ids.
        ids: Ids of the cases, or a function that returns the id of a case. Default: the text of a value. The texts of a
            tuple's values are joined by hyphens.

    Raises:
        ValueError: A name is not the prefix of any id.
    """
    listed = list(cases)
    known = [(ids or _id)(case) for case in listed] if ids is None or callable(ids) else list(ids)
    for name in names:
        if not any(one.startswith(name) for one in known):
            raise ValueError(f"no case begins with {name!r}: {known}")
    return [case if one.startswith(names) else _nightly(case) for case, one in zip(listed, known, strict=True)]


def spread(cases: Iterable[Any], count: int) -> list[Any]:
    """Divide the cases into ``count`` equal parts, and mark all except the first of each part ``nightly``."""
    listed = list(cases)
    chosen = {part * len(listed) // count for part in range(count)}
    return [case if position in chosen else _nightly(case) for position, case in enumerate(listed)]


def _id(case: Any) -> str:
    own = getattr(case, "id", None)  # only the parameter sets of pytest have an id
    return own or ("-".join(map(_id, case)) if isinstance(case, tuple) else str(getattr(case, "name", case)))


def _nightly(case: Any) -> Any:
    if hasattr(case, "marks"):
        return pytest.param(*case.values, marks=[*case.marks, pytest.mark.nightly], id=case.id)
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.nightly)
