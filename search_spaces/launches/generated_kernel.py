"""A kernel ready to compile, with its launch, CUDA C++ and included headers."""

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
    """Limits on compiling a user's kernel: CPU seconds, and bytes of memory beyond those of an idle compiler.

    The kernel file can raise the limits.
    """

    seconds: float = math.inf
    memory: float = math.inf

    def __bool__(self) -> bool:
        return min(self.seconds, self.memory) < math.inf

    def why(self, exceeded: str, times: float = 1.0) -> str:
        """Return the message for a compiler that exceeded a limit.

        Args:
            exceeded: The exceeded limit, "time" or "memory".
            times: Factor of the time limit: the compiler took more than ``times * seconds``.
        """
        if exceeded == "time":
            took, more = (
                f"{times * self.seconds:g} CPU seconds",
                f"compile_time_limit = {10 * self.seconds:g}, in seconds",
            )
            return f"the compiler took more than {took}: to raise the limit, write {more}"
        gib = self.memory / (1 << 30)
        more = f"compile_memory_limit = {10 * gib:.1g}, in GiB"
        return f"the compiler took more than {gib:.2g} GiB of memory: to raise the limit, write {more}"


@dataclass(frozen=True, kw_only=True)
class GeneratedKernel(Launch):
    """A launch, and the CUDA C++ of the launched kernel.

    Attributes:
        source: CUDA C++. ``entry`` is the name of a ``__global__`` function in the source, or a name expression such as
            "scale<float, 4>" for an instantiation of a template.
        headers: Headers with their texts.
        compile_options: NVRTC options, one string each ("-DTILE=16"), in addition to the options that all kernels have.
        cooperating: (count, stride): Groups of ``count`` blocks, whose numbers are ``stride`` apart, compute results
            together. The block numbers b of a group differ only in b // stride % count.
        chained: True if a group may also share one result with the previous group and one result with the next group.
        window: Number of consecutive groups in a window. Windows begin at multiples of this number. A group alone
            computes complete results of the first output. Complete results of another output need all groups of a
            window. 1 if each group computes complete results of all outputs.
        repeatable: True if the same inputs give the same bits for any order of blocks and threads.
        arch: Architecture of the launch ("sm_90a"); "" if the source does not depend on the architecture.
        limits: Limits of the compilation; a compiler that exceeds them is terminated.

    Raises:
        ValueError: The entry is malformed, or an option contains a path. Headers must be passed by content.
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
                raise ValueError(f"{option!r} is not allowed in compile options: pass the text of headers in `headers`")

    @property
    def name(self) -> str:
        """Name of the entry function without template arguments, for display and file names."""
        match = _ENTRY.fullmatch(self.entry)
        return match["name"] if match is not None else "kernel"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything except ``arch``. Kernels with equal digests are equal on the same architecture."""
        parts = [self.source, self.headers.digest, self.compile_options, self.launch_json()]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @cached_property
    def code_digest(self) -> str:
        """SHA-256 of everything that affects machine code and resources, except the architecture.

        Kernels that differ only in grid, block, arguments or tensor maps have equal code digests.
        """
        entries = [[step.entry, step.dynamic_shared_bytes] for step in self.steps]
        parts = [self.source, self.headers.digest, self.compile_options, entries]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
