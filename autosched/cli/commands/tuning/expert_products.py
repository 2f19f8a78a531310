"""``autosched tune --moe config.json --dtype nvfp4 --db best.db``: the products of an expert, tuned into a database.

``--json``: ``database``, ``device``, ``provenance``, and ``products``: ``tokens`` (batch sizes), ``part``, ``problem``,
``best`` (null, or a trial as in ``autosched best --json``), ``word`` (default, tuned or noise; null if no schedule
works), ``default_seconds``, ``tuned_seconds``, ``ratio`` and ``interval``.
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
    """Tune products, and print how each compares with its default."""
    from autosched.tuning.expert_products import tune_products
    from autosched.worth.evidence import recorded_searches

    # Regret of the time model's first choice on GPUs: the model cannot rank schedules that are closer than this.
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
        kinds = {product.best.provenance.value for product in tuned if product.best is not None}
        product = {"database": without_password(db), "device": device.name, "provenance": next(iter(kinds), None)}
        print_json({**product, "products": [_to_json(each) for each in tuned]})
    else:
        _show(tuned, device, noise)
    return 0 if all(product.best is not None for product in tuned) else ExitStatus.NO


def _show(tuned: Sequence[TunedProduct], device: Device, noise: float) -> None:
    console = stdout_console()
    kinds = " and ".join(sorted({product.best.provenance.value for product in tuned if product.best is not None}))
    console.print(f"products of an expert on {device.name}; times are {kinds.replace('estimated', 'ESTIMATED')}")
    numbers = ("rows", "n", "k", "time", "default", "gain")
    table = formatting.table(
        *("tokens", "product", *numbers, "default / tuned / noise", "verification", "kernel"),
        right=numbers,
    )
    for product in tuned:
        problem, best = product.product.problem, product.best
        table.add_row(
            ", ".join(map(str, product.product.tokens)),
            product.product.part,
            *map(str, (problem.m, problem.n, problem.k)),
            "none works" if best is None or best.seconds is None else formatting.time(best.seconds),
            "" if product.default_seconds is None else formatting.time(product.default_seconds),
            "" if product.ratio is None else f"x{product.ratio:.2f}",
            product.word or "",
            "" if best is None else stored.brief(best.verification),
            "" if best is None else best.schedule.template,
        )
    show(console, table)
    words = Counted(product.word for product in tuned)
    alike = words["default"] + words["noise"]
    if alike:
        console.print(
            f"{alike} of {len(tuned)} products gain nothing beyond noise ({100 * noise:.1f} % of estimates)",
            soft_wrap=True,
        )


def _to_json(product: TunedProduct) -> dict[str, Any]:
    problem, best = product.product.problem, product.best
    return {
        "tokens": list(product.product.tokens),
        "part": product.product.part,
        "problem": problem.to_json(),
        "best": None if best is None else formatting.trial_json(problem, best),
        "word": product.word,
        "default_seconds": product.default_seconds,
        "tuned_seconds": None if best is None else best.seconds,
        "ratio": product.ratio,
        "interval": None if product.interval is None else list(product.interval),
    }
