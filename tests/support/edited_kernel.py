"""Plant a fault in a kernel by replacing a text of its source or of one of its headers."""

from __future__ import annotations

import dataclasses

from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers


def edited_kernel(kernel: GeneratedKernel, header: str, old: str, new: str) -> GeneratedKernel:
    """Return the kernel with ``old`` replaced by ``new``. ``old`` must occur.

    Args:
        kernel: Kernel to edit.
        header: Name of the header to edit, or "" for the source.
        old: Text to replace.
        new: Text that replaces ``old``.
    """
    if not header:
        assert old in kernel.source
        return dataclasses.replace(kernel, source=kernel.source.replace(old, new))
    texts = dict(kernel.headers.files)
    assert old in texts[header]
    return dataclasses.replace(kernel, headers=Headers.of({**texts, header: texts[header].replace(old, new)}))
