"""Report of a database as one self-contained HTML page, without scripts or external resources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

import jinja2
from markupsafe import Markup

from autosched.reporting import formatting
from autosched.reporting.html import svg
from autosched.reporting.html.difference import Change, changes
from autosched.reporting.html.entry import ReportEntry, entries
from autosched.reporting.pictures import panels
from autosched.reporting.roofline import known
from autosched.version import VERSION
from measurements.store.store import Store
from measurements.trials.vendor_library import is_library
from search_spaces.catalogue import template

_PAGE = "report.html.jinja"
_MOST_ROWS = 2000  # maximum number of rows of the overview table
_SECTION_BYTES = 12_000  # upper estimate of the size in bytes of a section without pictures
_BYTES = 4_000_000  # maximum size in bytes of all sections with pictures


@dataclass(frozen=True)
class Picture:
    """Picture of a layout, as SVG with a title and a subtitle."""

    title: str
    subtitle: str
    svg: Markup


@dataclass(frozen=True)
class Section:
    """The details of one entry."""

    entry: ReportEntry
    progress: Markup
    pictures: tuple[Picture, ...]


@dataclass(frozen=True)
class ReportPage:
    """Content of the page.

    ``sections`` has the details of the first entries, as many as fit. ``against`` is the name of the database to
    compare with, or "".
    """

    database: str
    created: datetime
    entries: tuple[ReportEntry, ...]
    sections: tuple[Section, ...]
    against: str
    changes: tuple[Change, ...]

    @property
    def title(self) -> str:
        """Name of the database; for a file, without its folders."""
        return self.database if "://" in self.database else Path(self.database).name

    @property
    def trials(self) -> int:
        """Number of trials of all entries."""
        return sum(len(e.trials) for e in self.entries)

    @property
    def to_do(self) -> int:
        """Number of entries with advice."""
        return sum(bool(e.advice) for e in self.entries)


def build(
    store: Store,
    against: Store | None = None,
    *,
    operator: str | None = None,
    device: str | None = None,
    now: datetime | None = None,
) -> ReportPage:
    """Collect the content of the page, including differences from the winners in another database.

    Args:
        store: Database to show.
        against: Database to compare with; None for no comparison.
        operator: Only problems of this operator; None for all.
        device: Only the device of this name; None for all.
        now: Time of the report, with a time zone; None for the current time.

    Returns:
        The content. Nothing is written.

    Raises:
        StoreError: A database cannot be read.
    """
    now = datetime.now(UTC) if now is None else now
    report_entries = entries(store, now, operator, device)
    differences: tuple[Change, ...] = ()
    if against is not None:
        differences = changes(report_entries, entries(against, now, operator, device))
    name = "" if against is None else against.name
    return ReportPage(store.name, now, report_entries, _sections(report_entries), name, differences)


def render(report: ReportPage) -> str:
    """Return the page as text, to be written as UTF-8."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(time=formatting.time, count=formatting.count, plural=formatting.plural)
    text = resources.files("autosched.reporting.html").joinpath(_PAGE).read_text("utf-8")
    shown = report.entries[:_MOST_ROWS]
    return environment.from_string(text).render(report=report, rows=shown, version=VERSION)


def _sections(entries: Sequence[ReportEntry]) -> tuple[Section, ...]:
    sections, size = [], 0
    for entry in entries:
        progress = svg.progress(entry.trials)
        size += len(progress) + _SECTION_BYTES
        if size > _BYTES:
            break
        pictures = _pictures(entry)
        drawn = sum(len(p.svg) for p in pictures)
        if size + drawn > _BYTES:
            pictures, drawn = (), 0
        size += drawn
        sections.append(Section(entry, progress, pictures))
    return tuple(sections)


def _pictures(entry: ReportEntry) -> tuple[Picture, ...]:
    """Draw the layouts of the winner. The result is empty if there are none, or the winner is not usable."""
    chip = known(entry.device)
    if entry.best is None or entry.problem is None or chip is None or is_library(entry.best.schedule):
        return ()
    pictures = []
    try:
        entry_template = template(entry.best.schedule.template)
        config = entry_template.config(entry.problem, entry.best.schedule, chip)
        for drawing in entry_template.drawings(entry.problem, config, chip):
            for number, panel in enumerate(panels(drawing)):
                if len(panel.cells) <= svg.MOST_CELLS:
                    title = panel.title if number else f"{drawing.title}: {panel.title}"
                    pictures.append(Picture(title, panel.subtitle, svg.panel(panel)))
    except ValueError:
        return tuple(pictures)
    return tuple(pictures)
