"""A rule of pymarkdown that reports the words and sentence beginnings that ``[tool.prose]`` of pyproject.toml forbids.

pymarkdown loads the class with the name of this file, and calls its ``next_line`` with each line of a page.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from pymarkdown.plugin_manager.plugin_details import PluginDetails, PluginDetailsV2
from pymarkdown.plugin_manager.plugin_scan_context import PluginScanContext
from pymarkdown.plugin_manager.rule_plugin import RulePlugin

_CODE_SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_LINK_TARGET = re.compile(r"\]\([^)]*\)")
_FENCE = re.compile(r"\s*(```|~~~)")
_NOT_RUNNING_TEXT = re.compile(r"\s*([#|>]|<!--|\[[^\]]+\]:)")
_LIST_MARK = re.compile(r"\s*([-*+]|\d+\.)\s+")
_SENTENCE_END = re.compile(r"[.!?:][\"')*]*\s+")


class ProseRules(RulePlugin):
    """Report words that have a better replacement, and sentences that begin with a relative pronoun or a genitive."""

    def __init__(self) -> None:
        """Read the table once, because the same object scans all files."""
        super().__init__()
        table = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["tool"]["prose"]
        self._openers = re.compile(rf"({'|'.join(table['openers'])})\b")
        self._words = [(re.compile(rf"\b({word})\b", re.IGNORECASE), remedy) for word, remedy in table["words"].items()]
        self._fenced = self._in_paragraph = self._in_sentence = False

    def get_details(self) -> PluginDetails:
        """Return the name of the rule in configuration files."""
        return PluginDetailsV2(
            plugin_name="prose",
            plugin_id="PRO001",
            plugin_enabled_by_default=True,
            plugin_description="Plain English",
            plugin_version="1.0.0",
            plugin_url="",
            plugin_configuration="",
            plugin_supports_fix=False,
        )

    def starting_new_file(self) -> None:
        """Reset the state of the previous file."""
        self._fenced = self._in_paragraph = self._in_sentence = False

    def next_line(self, context: PluginScanContext, line: str) -> None:
        """Report findings in a line, except in code.

        Args:
            context: Receives the findings.
            line: The line, without its line break.
        """
        if _FENCE.match(line):
            self._fenced = not self._fenced
            self._in_paragraph = self._in_sentence = False
            return
        if self._fenced or (line.startswith("    ") and not self._in_paragraph):
            return
        text = _LINK_TARGET.sub(_blank, _CODE_SPAN.sub(_blank, line))
        for word, remedy in self._words:
            for match in word.finditer(text):
                self._report(context, match, f"write {remedy}")
        if _NOT_RUNNING_TEXT.match(line) or not line.strip():
            self._in_paragraph = self._in_sentence = False
            return
        mark = _LIST_MARK.match(text)
        begins = [mark.end() if mark else len(text) - len(text.lstrip())] if mark or not self._in_sentence else []
        begins += [match.end() for match in _SENTENCE_END.finditer(text)]
        for begin in sorted(set(begins)):
            end = _SENTENCE_END.search(text, begin)
            question = text[begin : end.end() if end else len(text)].rstrip().endswith("?")
            if not question and (match := self._openers.match(text, begin)):
                self._report(context, match, "begin with a noun as the subject")
        self._in_paragraph = True
        self._in_sentence = _SENTENCE_END.search(text.rstrip()[-3:] + " ") is None

    def _report(self, context: PluginScanContext, match: re.Match[str], remedy: str) -> None:
        self.report_next_line_error(context, match.start() + 1, extra_error_information=f"{match[0]}: {remedy}")


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])
