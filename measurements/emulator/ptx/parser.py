"""Reads PTX text (PTX ISA, chapters 4 to 6) as NVRTC, nvcc, clang and Triton write it: modules and their functions."""

from __future__ import annotations

import re
from dataclasses import replace

from measurements.emulator.ptx.body import FILE, LOC, Body
from measurements.emulator.ptx.cursor import Cursor, PtxError, without_comments
from measurements.emulator.ptx.declarations import PARAMETER, VARIABLE, parameter, variables
from measurements.emulator.ptx.syntax import Function, Module, Variable

__all__ = ["PtxError", "parse"]

_BLOCKS_OF_SM = re.compile(r"\.minnctapersm\s+(\d+)")
_CLUSTER = re.compile(r"\.reqnctapercluster\s+(\d+(?:\s*,\s*\d+)*)")
_MODULE_LINE = re.compile(r"\.(version|target|address_size)\s+([^\n]*)")
_FUNCTION = re.compile(r"((?:\.(?:visible|extern|weak|common)\s+)*)\.(entry|func)\b")
_NAME = re.compile(r"[%$\w]+")


def parse(text: str) -> Module:
    """Raises PtxError."""
    # Debug sections, which hold only numbers, come last and are as long as all the rest.
    debug = re.search(r"^\s*\.section\b", text, re.MULTILINE)
    files = {int(n): _unescape(name) for n, name in FILE.findall(text)}
    return _Parser(text[: debug.start()] if debug else text, files).module()


def _unescape(name: str) -> str:
    """The name of a file on one line, as programs and reports have it."""
    return re.sub(r"\s", " ", re.sub(r"\\(.)", r"\1", name, flags=re.DOTALL))


class _Parser(Cursor):
    def __init__(self, text: str, files: dict[int, str]) -> None:
        super().__init__(text)
        self.files = files

    def module(self) -> Module:
        version = target = ""
        declared: list[Variable] = []
        functions: dict[str, Function] = {}
        while self.skip():
            if found := self.take(_MODULE_LINE):
                if found[1] == "version":
                    version = found[2].strip()
                elif found[1] == "target":
                    target = found[2].split(",")[0].strip()
            elif self.take(FILE) or self.take(LOC):
                continue
            elif _FUNCTION.match(self.text, self.at):
                function = self.function()
                known = functions.get(function.name)
                if known is None or not known.is_defined:
                    functions[function.name] = function
            elif self.text.startswith(".alias", self.at) or self.text.startswith(".pragma", self.at):
                self.statement()
            else:
                start = self.at
                statement = self.statement()
                found = VARIABLE.match(statement)
                if found is None:
                    raise self.error(f"not understood: {statement.strip()[:80]}", start)
                declared += variables(found)
        return Module(version, target, tuple(declared), functions)

    def function(self) -> Function:
        found = self.take(_FUNCTION)
        assert found is not None
        is_kernel = found[2] == "entry"
        self.skip()
        results = () if is_kernel or not self.text.startswith("(", self.at) else self.parameters()
        self.skip()
        name = self.take(_NAME)
        if name is None:
            raise self.error("a function without a name")
        self.skip()
        parameters = self.parameters() if self.text.startswith("(", self.at) else ()
        # Performance directives: .maxntid 128, 1, 1 and the like.
        start = self.at
        while self.skip() and self.text[self.at] not in "{;":
            self.at += 1
        directives_end = self.at
        if directives_end == len(self.text):
            raise self.error(f"{name[0]} has no body")
        cluster = _CLUSTER.search(self.text, start, directives_end)
        if self.text[self.at] == ";":
            self.at += 1
            return Function(name[0], is_kernel, results, parameters, is_defined=False)
        body = Body(self, self.files, name[0], is_kernel, results, parameters).read()
        if blocks := _BLOCKS_OF_SM.search(self.text, start, directives_end):
            body = replace(body, blocks_of_sm=max(1, int(blocks[1])))
        if cluster is None:
            return body
        sides = [int(n) for n in re.findall(r"\d+", cluster[1])]
        return replace(body, cluster=(*sides, 1, 1)[:3])

    def parameters(self) -> tuple[Variable, ...]:
        end = self.text.find(")", self.at)
        if end < 0:
            raise self.error("parameters that do not end")
        inner = without_comments(self.text[self.at + 1 : end])
        self.at = end + 1
        return tuple(parameter(m) for m in PARAMETER.finditer(inner))
