"""Unordered accesses of a Triton program's host and streams, and unwritten values. Each case has a correct variant."""

# mypy: ignore-errors
from __future__ import annotations

import gc
import queue
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest
from needs import needs_compiler

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
import triton_program_kernels as kernels  # noqa: E402

from autosched.triton import emulated  # noqa: E402
from measurements.emulator import FindingKind  # noqa: E402

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::UserWarning")]

N = 100


def scaled(x, n=N):
    y = torch.empty_like(x)
    kernels.scale[(1,)](y, x, 2.0, n, BLOCK=128)
    return y


def kinds(program, *args, **options):
    """Return the kinds of faults and notes of a program. Check that all are reported at lines of this file."""
    with emulated("h100", check=False, **options) as session:
        program(*args)
    assert all(Path(f.file) == Path(__file__) for f in session.host_findings)
    return [str(f.kind) for f in session.findings if f.is_fault], [
        str(f.kind) for f in session.findings if not f.is_fault
    ]


# Order --------------------------------------------------------------------------------------------------------------


def between_streams(sound):
    x = torch.ones(N, device="cuda")
    side_stream = torch.cuda.Stream()
    side_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side_stream):
        y = scaled(x)
    if sound:
        torch.cuda.current_stream().wait_stream(side_stream)
    scaled(y)


def by_event(sound):
    a, b = torch.cuda.Stream(), torch.cuda.Stream()
    done = torch.cuda.Event()
    with torch.cuda.stream(a):
        y = torch.zeros(N, device="cuda")
        if sound:
            done.record()
    with b:
        b.wait_event(done)
        y.add_(1)


def work_before_the_first_stream(sound):
    x = scaled(torch.ones(N, device="cuda"))
    if sound:
        torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        scaled(x)


def halves(sound):
    y = torch.zeros(2 * N, device="cuda")
    torch.cuda.synchronize()
    a, b = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(a):
        y[:N].fill_(1)
    with torch.cuda.stream(b):
        y[N:].fill_(2) if sound else y[N - 1 :].fill_(2)


def halves_by_kernels(sound):
    x, y = torch.ones(2 * N, device="cuda"), torch.zeros(2 * N, device="cuda")
    torch.cuda.synchronize()
    for first in (0, N if sound else N - 1):
        with torch.cuda.stream(torch.cuda.Stream()):
            kernels.scale[(1,)](y[first:], x, 2.0, N, BLOCK=128)


def columns(sound):
    y = torch.zeros(8, 8, device="cuda")
    torch.cuda.synchronize()
    for part in (y[:, :4], y[:, 4:] if sound else y[:, 3:]):
        with torch.cuda.stream(torch.cuda.Stream()):
            part.fill_(1)


def pinned_result(sound):
    result = scaled(torch.ones(N, device="cuda")).to("cpu", non_blocking=True)
    if sound:
        torch.cuda.current_stream().synchronize()
    assert result.is_pinned() and float(result[3]) == 2


def pinned_result_by_copy(sound):
    result = torch.empty(N, pin_memory=True)
    result.copy_(torch.ones(N, device="cuda"), non_blocking=not sound)
    result.numpy()


def pinned_reused(sound):
    staging = torch.ones(N, pin_memory=True)
    x = staging.to("cuda", non_blocking=True)
    if sound:
        copied = torch.cuda.Event()
        copied.record()
        copied.synchronize()
    staging.fill_(2)
    scaled(x)


def pageable_reused(sound):
    # A copy from pageable memory returns only after it has read the memory.
    staging = torch.ones(N) if sound else torch.ones(N).pin_memory()
    x = torch.empty(N, device="cuda")
    x.copy_(staging, non_blocking=True)
    staging.zero_()
    scaled(x)


def reused_memory(sound):
    side_stream = torch.cuda.Stream()
    x = torch.ones(N, device="cuda")
    side_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side_stream):
        x.sum()
    if sound:
        x.record_stream(side_stream)
    del x
    gc.collect()
    torch.zeros(N, device="cuda")


def freed_after_a_wait(sound):
    side_stream = torch.cuda.Stream()
    x = torch.ones(N, device="cuda")
    side_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side_stream):
        x.sum()
    if sound:
        torch.cuda.current_stream().wait_stream(side_stream)
    del x
    gc.collect()
    torch.zeros(N, device="cuda")


def of_backward(sound):
    """A backward pass runs on the forward pass's stream. Without a wait, ``y + 1`` on another stream is unordered."""
    side_stream = torch.cuda.Stream()
    x = torch.ones(N, device="cuda", requires_grad=True)
    side_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side_stream):
        y = (x * x).sum()
    if sound:
        torch.cuda.current_stream().wait_stream(side_stream)
    y.backward() if sound else (y + 1).backward()


def in_another_thread(act, wait, sound):
    """Call ``act`` in another thread. If ``sound``, the other thread first waits until ``wait`` has returned here."""
    may_act = threading.Event()

    def other():
        may_act.wait()
        act()

    thread = threading.Thread(target=other)
    thread.start()
    if not sound:
        may_act.set()
    wait()
    may_act.set()
    thread.join()


def streams_of_two_threads(sound):
    x = torch.ones(N, device="cuda")
    torch.cuda.synchronize()
    a, b = torch.cuda.Stream(), torch.cuda.Stream()
    with a:
        x.add_(1)

    def act():
        with torch.cuda.stream(b):
            scaled(x)

    in_another_thread(act, a.synchronize, sound)


def pinned_result_in_a_thread(sound):
    result = torch.ones(N, device="cuda").to("cpu", non_blocking=True)
    in_another_thread(lambda: result.numpy(), torch.cuda.synchronize, sound)


def read_when_notified(wait_for_notification, notify, sound):
    """Another thread copies a tensor and reads the copy. This thread waits for the stream, then notifies the other."""
    copied, stream, results = threading.Event(), torch.cuda.Stream(), []

    def other():
        with torch.cuda.stream(stream):
            results.append(torch.ones(N, device="cuda").to("cpu", non_blocking=True))
        copied.set()
        if sound:
            wait_for_notification()
        results[0].numpy()

    thread = threading.Thread(target=other)
    thread.start()
    copied.wait()
    stream.synchronize()
    notify()
    thread.join()


def notified_by_a_queue(sound):
    notifications = queue.Queue()
    read_when_notified(notifications.get, lambda: notifications.put(None), sound)


def notified_by_a_condition(sound):
    condition, notifications = threading.Condition(), []

    def wait_for_notification():
        with condition:
            condition.wait_for(lambda: notifications)

    def notify():
        with condition:
            notifications.append(True)
            condition.notify()

    read_when_notified(wait_for_notification, notify, sound)


def notified_by_a_future(sound):
    notification = Future()
    read_when_notified(notification.result, lambda: notification.set_result(None), sound)


PROGRAMS = (
    between_streams, by_event, work_before_the_first_stream, halves, halves_by_kernels, columns, pinned_result,
    pinned_result_by_copy, pinned_reused, pageable_reused, reused_memory, freed_after_a_wait, of_backward,
    streams_of_two_threads, pinned_result_in_a_thread, notified_by_a_queue,
    notified_by_a_condition, notified_by_a_future,
)  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_unordered_uses_are_faults(program):
    faults, _ = kinds(program, False)
    assert set(faults) == {"host_race"}


@pytest.mark.parametrize("program", PROGRAMS)
def test_uses_that_streams_events_and_waits_order_are_not(program):
    assert kinds(program, True) == ([], [])


def test_a_race_makes_the_program_fail():
    from autosched.triton.session import FaultsFound

    with pytest.raises(FaultsFound, match="host_race"), emulated("h100"):
        between_streams(False)


# Uninitialised memory ------------------------------------------------------------------------------------------------


def written_in_part():
    y = torch.empty(N, device="cuda")
    kernels.scale[(1,)](y, torch.ones(N, device="cuda"), 2.0, 64, BLOCK=128)
    return y


@pytest.mark.parametrize(
    "take",
    [
        lambda y: y.sum().item(),
        lambda y: float((y * 2)[99]),
        lambda y: torch.equal(y, torch.full_like(y, 2)),
        lambda y: torch.allclose(y, torch.full_like(y, 2)),
        lambda y: bool((y > 0).all()),
        lambda y: y[y > 0],
        lambda y: y.cpu().sum().item(),
        lambda y: torch.nonzero(torch.cat([y, y])),
        lambda y: str(y),
        lambda y: torch.zeros(N, device="cuda").copy_(y).max().item(),
        lambda y: torch.empty(N, device="cuda").numpy(),
    ],
)
def test_the_program_reads_memory_that_was_never_written(take):
    faults, _ = kinds(lambda: take(written_in_part()))
    assert faults and set(faults) == {"uninitialized_host_read"}


@pytest.mark.parametrize(
    "take",
    [
        lambda y: y[:64].sum().item(),
        lambda y: y.sum(),
        lambda y: torch.where(torch.arange(N, device="cuda") < 64, y, 0).sum().item(),
        lambda y: y.fill_(3).sum().item(),
        lambda y: (y * 0 == y)[:64].any().item(),
        lambda y: torch.empty(3, device="cuda").copy_(torch.ones(3)).sum().item(),
        lambda y: y.cpu()[:64].tolist(),
        lambda y: y.clone()[3].item(),
        lambda y: torch.equal(y, torch.ones_like(y)),
        lambda y: ((y == 2) | (torch.arange(N, device="cuda") >= 64)).all().item(),
        lambda y: torch.cat([y[:64], torch.zeros(36, device="cuda")]).sum().item(),
        lambda y: torch.empty(N).numpy().fill(3),
        lambda y: y.index_fill_(0, torch.arange(64, N, device="cuda"), 0).sum().item(),
        lambda y: (
            torch.addmm(torch.empty(3, 3, device="cuda"), *[torch.ones(3, 3, device="cuda")] * 2, beta=0).sum().item()
        ),
    ],
)
def test_results_copied_from_partly_written_memory_are_initialised(take):
    assert kinds(lambda: take(written_in_part())) == ([], [])


def test_numpy_of_memory_that_is_written_in_part_is_a_note():
    assert kinds(lambda: written_in_part().cpu().numpy()) == ([], [str(FindingKind.UNINITIALIZED_HOST_READ)])


def test_undefined_memory_may_be_allowed():
    assert kinds(lambda: written_in_part().sum().item(), undefined_memory=False) == ([], [])


def test_random_operators_are_run_again_with_the_same_numbers():
    def program():
        torch.manual_seed(3)
        first = torch.nn.functional.dropout(written_in_part()[:64])
        torch.manual_seed(3)
        second = torch.nn.functional.dropout(written_in_part())[:64]
        assert torch.equal(first, second)

    assert kinds(program) == ([], [])
