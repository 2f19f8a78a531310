"""How results are shown to people who were not there: one HTML file for a database.

Start with ``html_report.py``. Nothing here tunes, compiles or needs a GPU.
"""

from autosched.reporting.html.html_report import Report, build, render

__all__ = ["Report", "build", "render"]
