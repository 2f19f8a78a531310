"""HTML report of a database.

Start at ``html_report.py``. ``entry.py`` describes one problem, ``decisions.py`` estimates the effect of each decision,
and ``svg.py`` draws charts. The page is one file that works offline, on phones and in dark mode. This package must not
import ``tuning`` or the command line.
"""

from autosched.reporting.html.html_report import ReportPage, build, render

__all__ = ["ReportPage", "build", "render"]
