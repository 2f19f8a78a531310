"""Settings of Sphinx, with which ``sphinx-build -W docs site`` writes a web site (needs the extra ``docs``)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from autosched.version import VERSION

project = "autosched"
release = VERSION
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns: list[str] = []
html_theme = "furo"
html_title = f"autosched {VERSION}"
myst_heading_anchors = 4
# Some pages link to files of the repository that are not part of the site. Warnings about such links are disabled.
suppress_warnings = ["myst.xref_missing", "misc.highlighting_failure"]
