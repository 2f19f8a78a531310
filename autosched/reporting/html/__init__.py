"""One HTML page that reports a database.

Start at ``html_report.py``. ``entry.py`` describes one problem, ``decisions.py`` the effect of each decision, and
``svg.py`` draws. The page works offline, on phones and in the dark. Nothing here tunes, compiles or needs a GPU.
"""

from autosched.reporting.html.html_report import ReportPage, build, render

__all__ = ["ReportPage", "build", "render"]
