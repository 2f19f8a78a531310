"""Default location of a user's database."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "AUTOSCHED_DB"


def default_database() -> str:
    """Return AUTOSCHED_DB (a path or SQLAlchemy URL), or ``autosched/best.db`` in the user's data folder (XDG).

    Raises ValueError if there is no home folder.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return chosen
    data = os.environ.get("XDG_DATA_HOME")
    try:
        return str((Path(data) if data else Path.home() / ".local" / "share") / "autosched" / "best.db")
    except RuntimeError as error:
        raise ValueError(f"there is no home folder for a database: name a database, or set {VARIABLE}") from error


def database_or_default(database: str | Path | None) -> str:
    """Return ``database`` (a path or URL); if None, return the user's default database and create its folder.

    Raises ValueError or OSError.
    """
    if database is not None:
        return str(database)
    chosen = default_database()
    if "://" not in chosen:
        Path(chosen).parent.mkdir(parents=True, exist_ok=True)
    return chosen
