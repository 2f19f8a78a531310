"""``autosched tune --moe config.json --dtype nvfp4 --db best.db``: tune and store an expert's matrix products.

``--json`` prints ``database``, ``device``, ``provenance`` and ``products``. Each product has ``tokens`` (batch sizes),
``part``, ``problem``, ``best`` (null, or a trial as in ``autosched best --json``), ``word`` (default, tuned or noise;
null if no schedule works), ``default_seconds``, ``tuned_seconds``, ``ratio`` and ``interval``.
"""

from __future__ import annotations

import statistics
from collections import Counter as Counted
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autosched.cli.terminal import interrupts
from autosched.cli.terminal.console import show, stderr_console, stdout_console
from autosched.cli.terminal.errors import InputError
from autosched.cli.terminal.output import print_json, say
from autosched.cli.terminal.progress import Counter
from autosched.reporting import formatting
from autosched.reporting.exit_status import ExitStatus
from autosched.verify import stored
from measurements.files.text import without_password
from measurements.store.errors import StoreError

if TYPE_CHECKING:
    from autosched.tuning.expert_products import ExpertProduct, TunedProduct
    from search_spaces.hardware.devices import Device


def tune_layer(
    products: Sequence[ExpertProduct], device: Device, db: str, *, trials: int, backend: str, json: bool
) -> int:
    """Tune an expert's products, and print the speedup of each over its default schedule."""
    from autosched.tuning.expert_products import tune_products
    from autosched.worth.evidence import recorded_searches

    # Median regret of the time model's first choice on GPUs. The model cannot rank schedules whose times differ by less
    # than this fraction.
    noise = statistics.median(search.regret for search in recorded_searches(device.name)) - 1
    try:
        with interrupts.raised(), Counter(stderr_console(), "products", len(products)) as progress:
            tuned = tune_products(
                products, device, db, estimate_noise=noise, on_product=progress.advance, trials=trials, backend=backend
            )
    except StoreError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from error
    except KeyboardInterrupt:
        say(f"stopped; results so far are stored in {without_password(db)}")
        return ExitStatus.STOPPED
    if json:
        kinds = {result.best.provenance.value for result in tuned if result.best is not None}
        header = {"database": without_password(db), "device": device.name, "provenance": next(iter(kinds), None)}
        print_json({**header, "products": [_to_json(each) for each in tuned]})
    else:
        _show(tuned, device, noise)
    return 0 if all(result.best is not None for result in tuned) else ExitStatus.NO


def _show(tuned: Sequence[TunedProduct], device: Device, noise: float) -> None:
    console = stdout_console()
    kinds = " and ".join(sorted({result.best.provenance.value for result in tuned if result.best is not None}))
    console.print(f"matrix products of an expert on {device.name}; times are {kinds.replace('estimated', 'ESTIMATED')}")
    numbers = ("rows", "n", "k", "time", "default", "gain")
    table = formatting.table(
        *("tokens", "product", *numbers, "default / tuned / noise", "verification", "kernel"),
        right=numbers,
    )
    for result in tuned:
        problem, best = result.product.problem, result.best
        table.add_row(
            ", ".join(map(str, result.product.tokens)),
            result.product.part,
            *map(str, (problem.m, problem.n, problem.k)),
            "none works" if best is None or best.seconds is None else formatting.time(best.seconds),
            "" if result.default_seconds is None else formatting.time(result.default_seconds),
            "" if result.ratio is None else f"x{result.ratio:.2f}",
            result.word or "",
            "" if best is None else stored.brief(best.verification),
            "" if best is None else best.schedule.template,
        )
    show(console, table)
    words = Counted(result.word for result in tuned)
    alike = words["default"] + words["noise"]
    if alike:
        console.print(
            f"{alike} of {len(tuned)} products have no gain above the noise ({100 * noise:.1f} % of estimates)",
            soft_wrap=True,
        )


def _to_json(result: TunedProduct) -> dict[str, Any]:
    problem, best = result.product.problem, result.best
    return {
        "tokens": list(result.product.tokens),
        "part": result.product.part,
        "problem": problem.to_json(),
        "best": None if best is None else formatting.trial_json(problem, best),
        "word": result.word,
        "default_seconds": result.default_seconds,
        "tuned_seconds": None if best is None else best.seconds,
        "ratio": result.ratio,
        "interval": None if result.interval is None else list(result.interval),
    }
