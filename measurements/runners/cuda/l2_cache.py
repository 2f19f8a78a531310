"""Control a GPU's L2 cache."""

from __future__ import annotations


def reset_persisting_lines() -> None:
    """Reset persisting lines of the L2 cache (L2::evict_last), which may remain after the kernel that wrote them.

    Do nothing without CUDA bindings or a driver, or if the GPU does not support persisting lines.
    """
    try:
        from cuda.bindings import driver

        driver.cuCtxResetPersistingL2Cache()
    except (ImportError, RuntimeError):  # no bindings, or no driver: the bindings look up the driver at the first call
        return
