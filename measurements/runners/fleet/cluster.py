"""Discover and lease the GPUs and compilers of a Ray cluster, and replace actors that are lost.

Each GPU is leased by one actor, which reports the GPU's model (its *kind*). All GPUs of one kind share a dispatcher.
Ray serialises the data that processes exchange; no serialised data are stored.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from measurements.runners.base import RunnerStopped
from measurements.runners.fleet.actors import CALLS, CompileActor, FleetOptions, GpuActor, Hello, installed_version
from measurements.runners.fleet.dispatch import Dispatcher
from search_spaces.hardware.devices import Device

INSTALL = "pip install 'autosched[ray]'"
TICK = 0.5  # seconds between checks for stragglers and lost actors
REPLACING = 2.0  # seconds between attempts to replace lost actors
ARRIVAL = 120.0  # seconds until the first GPU must respond
FURTHER_ARRIVALS = 10.0  # seconds from the start after which a single responding GPU is enough
PATIENCE = 120.0  # seconds after which a run ends if no GPU of its kind responds


class FleetError(ValueError):
    """The cluster cannot be used. The message is one sentence with the remedy."""


class Fleet:
    """Owner of actors on the GPUs and CPUs of a Ray cluster.

    Args:
        address: "auto" for the running cluster of this machine, "local" for a new cluster that ends with this process,
            or an address.
        options: Options of the actors; None for the defaults.
        compilers: Number of compilers; None for one per CPU of the cluster.
        on_message: Function that is called with each message for the user.

    Raises:
        FleetError: Ray is not installed, there is no cluster, or none of its GPUs responds.
    """

    def __init__(
        self,
        address: str,
        options: FleetOptions | None = None,
        *,
        compilers: int | None = None,
        on_message: Callable[[str], None] = lambda line: None,
    ) -> None:
        try:
            import ray
        except ImportError as error:
            raise FleetError(f"Ray is not installed: {INSTALL}") from error
        self.address, self.options = address, options or FleetOptions()
        self._ray: Any = ray
        self._on_message = on_message
        self._lock = threading.Lock()
        self._kinds: dict[str, tuple[Device, Dispatcher]] = {}
        # handles of actors that have not yet responded; the value is True for a GPU, False for a compiler
        self._starting: dict[Any, bool] = {}
        self._compilers = Dispatcher(self._is_loss)
        self._toolchain = ""
        self._closed = threading.Event()
        self._started_ray = not ray.is_initialized()
        if self._started_ray:
            where = None if address == "local" else address
            try:
                ray.init(address=where, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, RuntimeError, ValueError) as error:
                why = str(error).splitlines()[0]
                raise FleetError(f"there is no Ray cluster at {address} ({why}): see ray start --help") from error
        self._wanted_compilers = compilers
        self._arrived = threading.Condition(self._lock)
        self._reported: set[str] = set()
        self._keeper = threading.Thread(target=self._keep, name="fleet", daemon=True)
        try:
            if self._count("GPU") < 1:
                raise FleetError(
                    f"the Ray cluster at {address} has no GPUs: start its nodes with ray start --num-gpus N"
                )
            self._top_up()
            self._keeper.start()
            self._await_gpus()
        except BaseException:
            self.close()
            raise

    @property
    def kinds(self) -> dict[str, int]:
        """Return the number of GPUs that currently respond, by device name."""
        with self._lock:
            return {name: dispatcher.members for name, (_, dispatcher) in self._kinds.items()}

    def device(self, name: str | None) -> Device:
        """Return the device ``name``; if it is None, the only kind of GPU in the cluster.

        Raises FleetError if there is no such device, or ``name`` is None and there are several kinds of GPU.
        """
        with self._lock:
            kinds = {key: device for key, (device, _) in self._kinds.items()}
        if name is None and len(kinds) > 1:
            raise FleetError(
                f"the cluster has {', '.join(kinds)}, whose times are not comparable: choose one with --device"
            )
        chosen = next(iter(kinds.values())) if name is None else kinds.get(name)
        if chosen is None:
            raise FleetError(f"the cluster has no {name}: use {', '.join(kinds)}")
        return chosen

    def gpus(self, device: Device) -> Dispatcher:
        """Return the dispatcher of the GPUs of the kind ``device``."""
        with self._lock:
            return self._kinds[device.name][1]

    @property
    def compilers(self) -> Dispatcher:
        """Dispatcher of compile jobs."""
        return self._compilers

    def put(self, value: Any) -> Any:
        """Put ``value`` into Ray's object store, so that each machine receives it once."""
        return self._ray.put(value)

    def require_toolchain(self, toolchain: str) -> None:
        """Use only compilers of version ``toolchain``. Other compilers are removed, even if they join later."""
        self._toolchain = toolchain

    def close(self) -> None:
        """End every actor, and the connection to Ray if this object opened it. Safe to call twice."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._keeper.is_alive() and self._keeper is not threading.current_thread():
            self._keeper.join(timeout=10.0)
        with self._lock:
            dispatchers = [self._compilers, *(d for _, d in self._kinds.values())]
            handles = [*self._starting, *(h for d in dispatchers for h in d.handles())]
        for dispatcher in dispatchers:
            dispatcher.close()
        if self._ray.is_initialized():
            for handle in handles:
                self._ray.kill(handle)
            if self._started_ray:
                self._ray.shutdown()

    def _is_loss(self, error: BaseException) -> bool:
        e = self._ray.exceptions
        return isinstance(error, (e.RayActorError, e.NodeDiedError, e.ObjectLostError, e.WorkerCrashedError))

    def _count(self, resource: str) -> int:
        return int(self._ray.cluster_resources().get(resource, 0))

    def _await_gpus(self) -> None:
        """Wait until all GPUs of the cluster have responded, or a time limit is reached."""
        began = time.monotonic()
        with self._arrived:
            while sum(d.members for _, d in self._kinds.values()) < self._count("GPU"):
                some = any(d.members for _, d in self._kinds.values())
                left = began + (FURTHER_ARRIVALS if some else ARRIVAL) - time.monotonic()
                if left <= 0 or not any(self._starting.values()):
                    break
                self._arrived.wait(min(left, 1.0))
            if not any(d.members for _, d in self._kinds.values()):
                why = "; ".join(sorted(self._reported)) or f"none within {ARRIVAL:g} s"
                raise FleetError(f"no GPU of the Ray cluster at {self.address} responds: {why}")

    def _keep(self) -> None:
        """Until the fleet is closed, replace lost actors and check the jobs."""
        last = time.monotonic()
        while not self._closed.wait(TICK):
            try:
                if time.monotonic() - last > REPLACING:
                    last = time.monotonic()
                    self._top_up()
                with self._lock:
                    dispatchers = [self._compilers, *(d for _, d in self._kinds.values())]
                for dispatcher in dispatchers:
                    dispatcher.check_jobs(PATIENCE)
            except Exception as error:  # the cluster itself is unavailable; the jobs will report this error
                self._say(f"the cluster does not respond: {str(error).splitlines()[0]}")

    def _top_up(self) -> None:
        """Start the missing actors: one for each GPU, and the required number of compilers."""
        wanted = self._wanted_compilers or max(1, self._count("CPU"))
        with self._lock:
            gpus = sum(d.members for _, d in self._kinds.values()) + sum(self._starting.values())
            compilers = self._compilers.members + sum(not of_gpu for of_gpu in self._starting.values())
        for _ in range(self._count("GPU") - gpus):
            self._start(True)
        for _ in range(wanted - compilers):
            self._start(False)

    def _start(self, of_gpu: bool) -> None:
        remote = self._ray.remote
        of_gpus = remote(num_cpus=0, num_gpus=1, max_concurrency=CALLS)(GpuActor)
        handle = (of_gpus if of_gpu else remote(num_cpus=1)(CompileActor)).remote(self.options)
        with self._lock:
            self._starting[handle] = of_gpu
        handle.hello.remote().future().add_done_callback(partial(self._hello, handle))

    def _hello(self, handle: Any, answer: Future[Hello]) -> None:
        error = answer.exception()
        hello = Hello(problem=str(error).splitlines()[0]) if error is not None else answer.result()
        with self._arrived:
            of_gpu = self._starting.pop(handle, None)
            self._arrived.notify_all()
            if of_gpu is None or self._closed.is_set():
                return
        why = hello.problem
        if not why and hello.version != installed_version():
            own = installed_version()
            why = f"a node has autosched {hello.version}, but this machine has {own}: install the same version"
        if not why and not of_gpu and self._toolchain not in ("", hello.toolchain):
            why = (
                f"a node has {hello.toolchain}, but this machine has {self._toolchain}: the node is not used "
                "for compiling"
            )
        if why:
            self._say(why)
            if error is None:
                self._ray.kill(handle)
            return
        if not of_gpu:
            self._compilers.add(handle)
            return
        assert hello.device is not None
        with self._arrived:
            _, dispatcher = self._kinds.setdefault(hello.device.name, (hello.device, Dispatcher(self._is_loss)))
        dispatcher.add(handle)
        with self._arrived:
            self._arrived.notify_all()

    def _say(self, line: str) -> None:
        with self._lock:
            if line in self._reported:
                return
            self._reported.add(line)
        self._on_message(line)


def stopped(error: BaseException) -> RunnerStopped:
    """Convert the error of a permanently lost job to RunnerStopped."""
    return RunnerStopped(f"the cluster: {error}")
