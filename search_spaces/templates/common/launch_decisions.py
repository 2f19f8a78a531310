"""Parameters of a matmul that are launch arguments: schedules that differ only in these share one compiled module.

The order of tiles and the cache policies are kernel arguments, and the tiles per block determine the grid. The
generated code depends on only three properties of these parameters: whether blocks compute several tiles, whether the
order is a Hilbert curve, and the number of stream-K blocks.
"""

from __future__ import annotations

from search_spaces.launches.launch import ScalarArgument
from search_spaces.spaces.config import Config
from search_spaces.templates.common.cache_hints import evict_arguments
from search_spaces.templates.common.raster import HILBERT, raster_argument

AT_LAUNCH = frozenset({"raster", "l2_evict_last", "tiles_per_block", "launched_blocks"})
ARGUMENT_NAMES = ("raster", "evict_a", "evict_b")


def launch_arguments(config: Config) -> tuple[ScalarArgument, ...]:
    """Return the arguments ARGUMENT_NAMES of a launch."""
    return raster_argument(config.text("raster")), *evict_arguments(config.text("l2_evict_last"))


def launch_constants(config: Config, *, stream_k: bool) -> dict[str, int | bool]:
    """Return the constants in the generated code that depend on the parameters AT_LAUNCH."""
    return {
        "several_tiles": config.integer("tiles_per_block") > 1,
        "stream_k_blocks": config.integer("launched_blocks") if stream_k else 0,
        "hilbert": config.text("raster") == HILBERT,
    }
