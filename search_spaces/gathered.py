"""Build options for functions that accept an options object, its fields as keywords, or both."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


Options = TypeVar("Options", bound="DataclassInstance")


def gathered(options_type: type[Options], argument: str, value: Options | None, keywords: Mapping[str, Any]) -> Options:
    """Return ``value`` with the fields in ``keywords`` replaced.

    Args:
        options_type: Dataclass of the options.
        argument: Name of the argument through which a caller passes a value.
        value: Options whose fields the keywords override. Default: new ones.
        keywords: Fields by name.

    Raises:
        TypeError: For a missing or unknown field, or a ``value`` of another type.
        ValueError: For an invalid option.
    """
    if value is None:
        return options_type(**keywords)
    if not isinstance(value, options_type):
        wanted, actual = options_type.__name__, type(value).__name__
        raise TypeError(f"{argument} must be {wanted}, not {actual}: name other arguments")
    return dataclasses.replace(value, **keywords)
