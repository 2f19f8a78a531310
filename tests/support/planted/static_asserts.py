"""Collect the names of rules from the static_asserts of a kernel's header and of every header that it includes."""

from __future__ import annotations

import re
from pathlib import Path

from search_spaces.launches.headers import include_dir


def asserted_rules(header: str) -> set[str]:
    """Return the rule names in messages such as "rule unroll: ..." of a header and all headers that it includes.

    Args:
        header: Name of the header, such as "autosched/kernels/matmul.cuh".
    """
    seen: set[str] = set()
    names: set[str] = set()
    waiting = [header]
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        text = (Path(include_dir()) / one).read_text()
        names |= set(re.findall(r'"rule (\w+):', text))
        waiting += re.findall(r"#include <(autosched/[^>]+)>", text)
    return names
