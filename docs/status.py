"""Make ``status.md`` of ``status.toml``: ``python docs/status.py``. Fails where the evidence of a claim is missing."""

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
    "simulated": "over simulated GPUs",
    "estimated": "estimated",
}
HEAD = """# Status
<!-- made by docs/status.py of status.toml -->
{summary} A GPU session is one command: `python -m benchmarks.gpu --minutes 20 --out results`.

| part | what is claimed | how | date | evidence |
|---|---|---|---|---|
"""


def missing(claim: Mapping[str, Any], root: Path) -> list[str]:
    """Return what is wrong with one claim, a line each: unknown keys, absent evidence, figures missing from it."""
    part = claim.get("part", "a claim without a part")
    wrong = [f"{part}: no {key}" for key in ("says", "state", "date", "evidence") if not claim.get(key)]
    wrong += [
        f"{part}: unknown key {key}" for key in set(claim) - {"part", "says", "state", "date", "evidence", "figures"}
    ]
    if wrong:
        return wrong
    if claim["state"] not in STATES:
        wrong.append(f"{part}: unknown state {claim['state']}")
    if not isinstance(claim["date"], datetime.date):
        wrong.append(f"{part}: the date must be a date of TOML, such as 2026-11-24")
    wrong += [f"{part}: {file} is missing" for file in claim["evidence"] if not (root / file).is_file()]
    if not wrong:
        text = (root / claim["evidence"][0]).read_text("utf-8")
        wrong += [
            f"{part}: {claim['evidence'][0]} does not say {f!r}" for f in claim.get("figures", ()) if f not in text
        ]
    return wrong


def page(text: str, root: Path) -> str:
    """Return the page of a TOML of claims.

    Raises ValueError with a line for every piece of evidence that is missing.
    """
    claims = tomllib.loads(text)["claim"]
    wrong = [line for claim in claims for line in missing(claim, root)]
    if wrong:
        raise ValueError("\n".join(wrong))
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
        made = page((FOLDER / "status.toml").read_text("utf-8"), FOLDER.parent)
    except ValueError as error:
        sys.exit(str(error))
    (FOLDER / "status.md").write_text(made, "utf-8")
