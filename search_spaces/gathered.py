"""Options of functions that accept an options object, the object's fields as keywords, or both."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


Options = TypeVar("Options", bound="DataclassInstance")


def gathered(options_type: type[Options], argument: str, value: Options | None, keywords: Mapping[str, Any]) -> Options:
    """Return the options ``value``, with the fields in ``keywords`` replaced.

    Args:
        options_type: Dataclass of the options.
        argument: Name of the argument that takes the options object, for messages.
        value: Options whose fields the keywords override. Default: new ones.
        keywords: Fields by name.

    Raises:
        TypeError: A field is missing or unknown, or ``value`` has another type.
        ValueError: An option is invalid.
    """
    if value is None:
        return options_type(**keywords)
    if not isinstance(value, options_type):
        wanted, actual = options_type.__name__, type(value).__name__
        raise TypeError(f"{argument} must be {wanted}, not {actual}: pass other arguments by keyword")
    return dataclasses.replace(value, **keywords)
