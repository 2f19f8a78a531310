"""Simulate entry points of packages that are not installed."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from search_spaces import installed


def offer(monkeypatch: pytest.MonkeyPatch, group: str, *values: str) -> None:
    """Make ``group`` have exactly the entry points ``values``, as if installed packages declared them."""
    points = tuple(EntryPoint(f"point{i}", value, group) for i, value in enumerate(values))
    offered = group
    monkeypatch.setattr(installed, "entry_points", lambda *, group: points if group == offered else ())
