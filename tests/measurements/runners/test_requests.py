"""A GPU worker receives requests as they were sent, and rejects invalid requests."""

from __future__ import annotations

import json

import pytest

from measurements.runners.cuda import requests
from measurements.runners.cuda.race import RaceRule
from measurements.runners.cuda.requests import Request, SentKernel, from_message, to_message
from measurements.trials.timing_statistics import StopRule
from measurements.workers.messages import Message

KERNEL = SentKernel("digest", {"entry": "kernel", "grid": [1, 1, 1]})
REQUESTS: list[Request] = [
    requests.Count(),
    requests.Open(1, "digest"),
    requests.Health(),
    requests.Prepare("key", {"operator": "copy"}, 3, [{"name": "a"}], {"inputs": {"a": "digest"}}, 2**20),
    requests.Measure("key", KERNEL, StopRule(), 1e-6, 0.5, 1e-4, power=True),
    requests.Measure(
        "key", KERNEL, StopRule(), 1e-6, 0.5, 1e-4, False, requests.Incumbent(KERNEL, 1e-6, RaceRule(1.2))
    ),
    requests.Outputs("key", KERNEL, 0.5),
    requests.Compare("key", [KERNEL, KERNEL], 7, ["library"], 0.5, 1e-4),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: type(r).__name__)
def test_requests_round_trip(request_: Request) -> None:
    message = to_message(request_, {"digest": b"bytes"})
    assert message.blobs == {"digest": b"bytes"}
    assert from_message(json.loads(json.dumps(message))) == request_


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"op": "explode"}, "unknown operation 'explode' of a GPU worker: use count, open, health"),
        ({}, "unknown operation None"),
        ({"op": "open"}, "open: .*gpu"),
        ({"op": "health", "gpu": 0}, "health: .*gpu"),
        ({"op": "outputs", "data": "key", "kernel": {"cubin": "digest"}, "launch_limit": 1.0}, "outputs: .*launch"),
    ],
)
def test_invalid_requests_are_rejected(message: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        from_message(Message(message))
