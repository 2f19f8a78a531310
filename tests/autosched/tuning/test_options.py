"""Tuning options are passed as keywords or as one object, which is validated on construction."""

import pytest

from autosched import Copy, TuneOptions, tune
from autosched.tuning.backends import BackendError


def test_keywords_build_options_and_override_those_handed_in() -> None:
    options, sizes = TuneOptions.gathered(None, {"trials": 3, "m": 96})
    assert (options, sizes) == (TuneOptions(trials=3), {"m": 96})
    assert TuneOptions.gathered(options, {"seed": 7}) == (TuneOptions(trials=3, seed=7), {})
    assert TuneOptions.gathered(options, {})[0] == options


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"trials": 0}, "trials"),
        ({"min_gain": 1.0}, "min_gain"),
        ({"seconds": 0}, "seconds"),
        ({"verification_seconds": -1}, "verification_seconds"),
        ({"effort": "most"}, "effort"),
        ({"objective": "registers:least"}, "direction"),
        ({"sampler": "genetic"}, "sampler"),
        ({"clocks": -1}, "MHz"),
        ({"workers": 0}, "workers"),
        ({"gpus": [0, 0]}, "gpus"),
        ({"recording": "a.json"}, "replay"),
        ({"ray": "auto", "backend": "cuda"}, "Ray"),
    ],
)
def test_options_are_validated_on_construction(options: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as error:
        TuneOptions(**options)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


def test_an_unknown_backend_raises_backend_error() -> None:
    with pytest.raises(BackendError):
        TuneOptions(backend="opencl")


def test_options_of_another_type_are_rejected() -> None:
    with pytest.raises(TypeError, match="TuneOptions"):
        tune(Copy(8, 8), 64)  # type: ignore[arg-type]
