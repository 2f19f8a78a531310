"""The XML schema of JUnit reports, loaded when a test first uses it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xmlschema import XMLSchema


@cache
def junit_schema() -> XMLSchema:
    """Return the schema. Importing its package and loading it take a tenth of a second each."""
    from xmlschema import XMLSchema

    return XMLSchema(Path(__file__).parents[1] / "autosched" / "regression" / "junit.xsd")
