"""Write ``status.md`` from ``status.toml``: ``python docs/status.py``. Fails if the evidence of a claim is missing."""

from __future__ import annotations

import datetime
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
STATES = {
    "gpu": "run on a GPU",
    "cpu": "run without a GPU",
    "simulated": "run with simulated GPUs",
    "estimated": "estimated",
}
HEAD = """# Status
<!-- written by docs/status.py from status.toml -->
{summary} A GPU session is one command: `python -m benchmarks.gpu --minutes 20 --out results`.

| subject | claim | basis | date | evidence |
|---|---|---|---|---|
"""


def errors_of(claim: Mapping[str, Any], root: Path) -> list[str]:
    """Return the errors of one claim as lines: unknown keys, missing files, figures that the evidence lacks."""
    part = claim.get("part", "a claim without a part")
    errors = [f"{part}: {key} is missing" for key in ("says", "state", "date", "evidence") if not claim.get(key)]
    errors += [
        f"{part}: unknown key {key}" for key in set(claim) - {"part", "says", "state", "date", "evidence", "figures"}
    ]
    if errors:
        return errors
    if claim["state"] not in STATES:
        errors.append(f"{part}: unknown state {claim['state']}")
    if not isinstance(claim["date"], datetime.date):
        errors.append(f"{part}: the date must be a TOML date, such as 2026-11-24")
    errors += [f"{part}: {file} is missing" for file in claim["evidence"] if not (root / file).is_file()]
    if not errors:
        text = (root / claim["evidence"][0]).read_text("utf-8")
        errors += [
            f"{part}: {claim['evidence'][0]} does not contain {f!r}" for f in claim.get("figures", ()) if f not in text
        ]
    return errors


def page(text: str, root: Path) -> str:
    """Return the status page as Markdown.

    Args:
        text: Claims, as TOML.
        root: Folder of the repository, which contains the evidence.

    Raises:
        ValueError: Claims have errors, one line for each.
    """
    claims = tomllib.loads(text)["claim"]
    errors = [line for claim in claims for line in errors_of(claim, root)]
    if errors:
        raise ValueError("\n".join(errors))
    measured = sum(claim["state"] == "gpu" for claim in claims)
    summary = (
        f"{measured} of {len(claims)} claims have been run on a GPU."
        if measured
        else "**No part of autosched has run on a GPU yet.** Times are estimates unless a line says otherwise."
    )
    rows = []
    for claim in claims:
        evidence = ", ".join(f"[{Path(file).name}](../{file})" for file in claim["evidence"])
        rows.append(
            f"| {claim['part']} | {claim['says']} | {STATES[claim['state']]} | {claim['date']} | {evidence} |\n"
        )
    return HEAD.format(summary=summary) + "".join(rows)


if __name__ == "__main__":
    try:
        text = page((FOLDER / "status.toml").read_text("utf-8"), FOLDER.parent)
    except ValueError as error:
        sys.exit(str(error))
    (FOLDER / "status.md").write_text(text, "utf-8")
