"""Errors of databases. This module does not import sqlalchemy, so that commands without a database start faster."""

from measurements.files.text import harmless


class StoreError(ValueError):
    """The database cannot be used. The message is one printable sentence with the remedy."""

    def __init__(self, message: str) -> None:
        super().__init__(harmless(message))


class EarlierProblem(StoreError):
    """Trials of a user's problem were stored with an earlier version of its reference or arguments."""


class UnknownOperator(StoreError):
    """The operator of a stored problem is not registered here. Another package may define it."""

    def __init__(self, database: str, operator: str) -> None:
        super().__init__(
            f"{database} has problems of an unknown operator, {operator!r:.60}: give its kernel file "
            "(--kernel FILE) or its tile program (--program FILE), or install the package that defines it"
        )
