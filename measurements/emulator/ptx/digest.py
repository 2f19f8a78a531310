"""Whether two programs are the same PTX, whatever lines of the source they are of."""

from __future__ import annotations

import hashlib
from functools import lru_cache

from measurements.emulator.twins import ptx_arch
from measurements.nvrtc import PTX_OPTIONS, NvrtcMissing, compile_to_ptx
from search_spaces.templates.headers import Headers
from search_spaces.templates.kernel import Kernel


def instructions(text: str) -> list[str]:
    """The lines of PTX, without comments, lines of the source, and constants that no instruction names."""
    body = text[: text.find("\n\t.file")] if "\n\t.file" in text else text
    skipped = ("\t.loc", ".global", "//", "\t//")
    return [line for line in body.splitlines() if line.strip() and not line.startswith(skipped)]


def ptx_digest(kernel: Kernel) -> str | None:
    """SHA-256 (hex) of what NVRTC makes of ``kernel``; None where it is missing, or refuses the kernel."""
    return _digest(kernel.source, kernel.entry, ptx_arch(kernel), kernel.headers, kernel.compile_options)


@lru_cache(maxsize=256)
def _digest(source: str, entry: str, arch: str, headers: Headers, options: tuple[str, ...]) -> str | None:
    try:
        output = compile_to_ptx(source, entry, arch, headers, (*PTX_OPTIONS, *options))
    except NvrtcMissing:
        return None
    if output.text is None:
        return None
    return hashlib.sha256("\n".join(instructions(output.text)).encode()).hexdigest()
