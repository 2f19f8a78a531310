"""The XML schema of JUnit reports, loaded by the first test that asks for it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xmlschema import XMLSchema


@cache
def junit_schema() -> XMLSchema:
    """Return the schema. Both its package and the schema take a tenth of a second to load."""
    from xmlschema import XMLSchema

    return XMLSchema(Path(__file__).parents[1] / "autosched" / "regression" / "junit.xsd")
