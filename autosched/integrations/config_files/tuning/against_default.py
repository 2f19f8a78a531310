"""Compare the best configuration with the package's default. The verdict is default, tuned, or noise.

If the gain is within noise, the default becomes the file's entry for the batch size. The entry is needed because,
without it, a program would use the configuration of the nearest size.

The noise of measured times is the confidence interval of interleaved rounds. The noise of estimates is derived from the
packages' files, which were tuned on GPUs. For each configuration in the files, its estimated time is divided by the
estimated time of the time model's first choice. The noise is the median of these ratios
(benchmarks/results/moe_winners.md). The model cannot distinguish smaller differences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from autosched.integrations.config_files.file_names import Format
from autosched.integrations.config_files.files import Config
from measurements.trials.gain import SAME, Word, ratio_of_medians, word_of
from measurements.trials.measurement import Timing
from measurements.trials.near_ties import Slowdown

ESTIMATE_NOISE: dict[Format, float] = {"vllm": 0.089, "sglang": 0.109}
ROUNDS = 10
_TRITON_OPTIONS = {"num_warps": 4, "num_stages": 3}


@dataclass(frozen=True)
class TimedConfig:
    """A configuration and its times.

    If it is unusable, ``timing`` is None and ``verification`` has the reason.
    """

    config: Config
    timing: Timing | None
    verification: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float | None:
        """Median time of a batch, in seconds."""
        return None if self.timing is None else self.timing.median

    def document(self) -> dict[str, Any]:
        """Return the configuration and its time as JSON."""
        t = self.timing
        return {
            "config": dict(self.config),
            "seconds": self.seconds,
            "quartiles": None if t is None else [t.p25, t.p75],
            "repeats": 0 if t is None else t.count,
            "verification": dict(self.verification),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the configuration in a JSON ``document``. Raises KeyError, TypeError or ValueError."""
        timing = None
        if document["seconds"] is not None:
            low, high = map(float, document["quartiles"])
            timing = Timing(float(document["seconds"]), low, high, int(document["repeats"]))
            if not 0 < timing.p25 <= timing.median <= timing.p75 < math.inf or timing.count < 0:
                raise ValueError(
                    f"invalid times: the median {document['seconds']} must be between the quartiles {low} and {high}"
                )
        config = tuple(sorted((str(name), int(value)) for name, value in document["config"].items()))
        return cls(config, timing, dict(document["verification"]))


@dataclass(frozen=True)
class DefaultComparison:
    """Comparison of the best configuration found, ``tuned``, with the package's ``default``.

    ``ratio`` is the default's time divided by the tuned configuration's time, and ``interval`` is the confidence
    interval of this ratio. ``ratio`` and ``interval`` are None if the default cannot be used.
    """

    default: TimedConfig
    tuned: TimedConfig
    ratio: float | None
    interval: tuple[float, float] | None

    @property
    def word(self) -> Word:
        """Verdict: "tuned" for a gain beyond the noise, "default" for no gain, "noise" in between."""
        return word_of(self.ratio, self.interval)

    @property
    def chosen(self) -> TimedConfig:
        """The configuration that is written to the file."""
        return self.tuned if self.word == "tuned" else self.default

    def document(self) -> dict[str, Any]:
        """Return the comparison as JSON."""
        return {
            "word": self.word,
            "ratio": self.ratio,
            "interval": None if self.interval is None else list(self.interval),
            "default": self.default.document(),
            "tuned": self.tuned.document(),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the comparison of a JSON ``document``. Raises KeyError, TypeError or ValueError if it is invalid."""
        ratio, interval = document["ratio"], document["interval"]
        if (ratio is None) != (interval is None):
            raise ValueError("a ratio needs an interval")
        if interval is not None:
            low, high = map(float, interval)
            if not 0 < low <= high < math.inf or not 0 < float(ratio) < math.inf:
                raise ValueError(f"invalid ratio {ratio} with the interval {low} to {high}")
            ratio, interval = float(ratio), (low, high)
        default, tuned = (TimedConfig.from_document(document[name]) for name in ("default", "tuned"))
        return cls(default, tuned, ratio, interval)


def same_config(one: Config, other: Config) -> bool:
    """Return True if Triton compiles two configurations to the same code. Omitted options have Triton's defaults."""
    return _TRITON_OPTIONS | dict(one) == _TRITON_OPTIONS | dict(other)


def compare(default: TimedConfig, tuned: TimedConfig, format: Format) -> DefaultComparison:
    """Compare the medians of two configurations.

    The noise is computed from the quartiles. If times were not measured repeatedly, the noise of estimates is used.

    Args:
        default: The package's default.
        tuned: Best configuration found, with a time.
        format: The package, on which the noise of estimates depends.

    Returns:
        The comparison. If the default is at least as fast, the comparison's ``tuned`` is the default too.
    """
    if default.timing is None or tuned.timing is None:
        return DefaultComparison(default, tuned, None, None)
    ratio, interval = ratio_of_medians(default.timing, tuned.timing, ESTIMATE_NOISE[format])
    if ratio <= 1 or same_config(default.config, tuned.config):
        return DefaultComparison(default, default, *SAME)
    return DefaultComparison(default, tuned, ratio, interval)


def compare_alternately(
    default: TimedConfig, tuned: TimedConfig, measure: Callable[[Config], float], rounds: int = ROUNDS
) -> DefaultComparison:
    """Time two configurations in rounds. The configuration that is timed first alternates.

    Args:
        default: The package's default. Its times are replaced by the measured times.
        tuned: Best configuration found. Its times are replaced by the measured times.
        measure: Returns the seconds of a batch with a configuration.
        rounds: Number of rounds, at least 6.

    Returns:
        The comparison, whose interval is computed from the log-ratios of the rounds.
    """
    if same_config(default.config, tuned.config):
        return DefaultComparison(default, default, 1.0, (1.0, 1.0))
    times: tuple[list[float], list[float]] = ([], [])
    for round_number in range(rounds):
        for which in (0, 1) if round_number % 2 == 0 else (1, 0):
            times[which].append(measure((default, tuned)[which].config))
    timed = [_with_times(each, seconds) for each, seconds in zip((default, tuned), times, strict=True)]
    slowdown = Slowdown.of(*times)
    if slowdown.centre <= 0:
        return DefaultComparison(timed[0], timed[0], 1.0, (1.0, 1.0))
    return DefaultComparison(
        timed[0], timed[1], math.exp(slowdown.centre), (math.exp(slowdown.low), math.exp(slowdown.high))
    )


def _with_times(config: TimedConfig, seconds: Sequence[float]) -> TimedConfig:
    return TimedConfig(config.config, Timing.of(seconds), config.verification)
