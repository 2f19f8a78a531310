"""Entry points of packages that are not there."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from search_spaces import installed


def offer(monkeypatch: pytest.MonkeyPatch, group: str, *values: str) -> None:
    """Pretend that installed packages have these entry points of a group, and none of others."""
    points = tuple(EntryPoint(f"point{i}", value, group) for i, value in enumerate(values))
    wanted = group
    monkeypatch.setattr(installed, "entry_points", lambda *, group: points if group == wanted else ())
