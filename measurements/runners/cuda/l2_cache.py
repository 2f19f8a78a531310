"""What a process can do about the L2 of its GPU."""

from __future__ import annotations


def reset_persisting_lines() -> None:
    """Make lines ordinary again that a kernel has marked to stay longest (L2::evict_last), which may outlive it.

    Nothing happens where the CUDA bindings or a driver are missing, or the GPU has no such lines.
    """
    try:
        from cuda.bindings import driver

        driver.cuCtxResetPersistingL2Cache()
    except (ImportError, RuntimeError):  # no bindings, or no driver, whose functions they look up at the first call
        return
