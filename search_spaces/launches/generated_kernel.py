"""A kernel ready to compile: its launch, its CUDA C++ and the headers that this includes."""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass, field
from functools import cached_property

from search_spaces.launches.headers import Headers
from search_spaces.launches.launch import Launch
from search_spaces.short_repr import short_repr

_ENTRY = re.compile(r"(?:[A-Za-z_]\w*::)*(?P<name>[A-Za-z_]\w*)(?:<[\w\s:<>,.*&()+-]*>)?", re.ASCII)
_INCLUDES = ("-I", "--include-path", "-include", "--pre-include")


@dataclass(frozen=True)
class CompileLimits:
    """What the compilation of a user's kernel may take: seconds of the CPU, and bytes of memory beyond what the
    compiler holds before. The file raises them.
    """

    seconds: float = math.inf
    memory: float = math.inf

    def __bool__(self) -> bool:
        return min(self.seconds, self.memory) < math.inf

    def why(self, exceeded: str, times: float = 1.0) -> str:
        """Return what is said of a compiler that went beyond ``times`` its "time", or its "memory"."""
        if exceeded == "time":
            took, more = (
                f"{times * self.seconds:g} s of the CPU",
                f"compile_time_limit = {10 * self.seconds:g}, in seconds",
            )
            return f"the compiler took more than {took}: if it needs more, write {more}"
        gib = self.memory / (1 << 30)
        more = f"compile_memory_limit = {10 * gib:.1g}, in GiB"
        return f"the compiler took more than {gib:.2g} GiB of memory: if it needs more, write {more}"


@dataclass(frozen=True, kw_only=True)
class GeneratedKernel(Launch):
    """A launch, and the CUDA C++ that it launches.

    ``entry`` is the name of a ``__global__`` function of ``source``, or a name expression: "scale<float, 4>" is that
    instantiation of a template. ``compile_options`` are NVRTC's, each one string ("-DTILE=16"), added to those that
    every kernel is compiled with. With ``cooperating`` (count, stride), ``count`` blocks that are ``stride`` apart
    finish a result together: those whose b // stride % count differs alone. Where they are ``chained``, they may also
    share a result with those before them, and one with those behind. ``window`` groups of cooperating blocks that
    follow each other, and begin at a multiple of it, have all that a result of a further output needs; 1 where each
    has. ``repeatable``: whatever the order of blocks and threads, the same inputs give the same bits. ``arch``
    ("sm_90a") is what it is launched on; without one the source does not ask for it (``__CUDA_ARCH__``). A compiler
    that goes beyond ``limits`` is ended. Raises ValueError for a malformed entry, and for options with paths: headers
    are given by content.
    """

    source: str
    headers: Headers = field(default_factory=Headers)
    compile_options: tuple[str, ...] = ()
    cooperating: tuple[int, int] = (1, 1)
    chained: bool = False
    window: int = 1
    repeatable: bool = False
    arch: str = ""
    limits: CompileLimits = field(default=CompileLimits(), compare=False, repr=False)

    __repr__ = short_repr

    def __post_init__(self) -> None:
        super().__post_init__()
        for entry in (self.entry, *(step.entry for step in self.then)):
            if _ENTRY.fullmatch(entry) is None:
                raise ValueError(f"the entry must be a C identifier or an instantiation of a template, not {entry!r}")
        for option in self.compile_options:
            if not option.startswith("-") or option.startswith(_INCLUDES):
                raise ValueError(f"{option!r} is not allowed in compile options: give headers by content, in `headers`")

    @property
    def name(self) -> str:
        """The plain name of the entry function, for people and files."""
        found = _ENTRY.fullmatch(self.entry)
        return found["name"] if found is not None else "kernel"

    @cached_property
    def digest(self) -> str:
        """SHA-256 over all of it but ``arch``: the same digest, the same program of one architecture."""
        parts = [self.source, self.headers.digest, self.compile_options, self.launch_json()]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @cached_property
    def code_digest(self) -> str:
        """SHA-256 over all that its machine code and resources depend on but the architecture.

        Kernels that differ only in grid, block, arguments or tensor maps have the same one.
        """
        entries = [[step.entry, step.dynamic_shared_bytes] for step in self.steps]
        parts = [self.source, self.headers.digest, self.compile_options, entries]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
