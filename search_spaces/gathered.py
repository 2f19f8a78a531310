"""Options from the keywords of a call: the one rule for functions that take an options value or its fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


Options = TypeVar("Options", bound="DataclassInstance")


def gathered(options_type: type[Options], argument: str, value: Options | None, keywords: Mapping[str, Any]) -> Options:
    """Return options with ``keywords`` in place of the fields that they name.

    Args:
        options_type: Dataclass of the options.
        argument: Name of the argument in which a caller hands in a value.
        value: Options whose fields the keywords replace. Default: new ones.
        keywords: Fields by name.

    Raises:
        TypeError: A missing or unknown field, or ``value`` of another type.
        ValueError: An option that cannot be used.
    """
    if value is None:
        return options_type(**keywords)
    if not isinstance(value, options_type):
        wanted, actual = options_type.__name__, type(value).__name__
        raise TypeError(f"{argument} must be {wanted}, not {actual}: name other arguments")
    return dataclasses.replace(value, **keywords)
