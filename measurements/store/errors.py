"""Errors of unusable databases, without importing sqlalchemy: commands that open none need not wait for it."""

from measurements.files.text import harmless


class StoreError(ValueError):
    """The database cannot be used. The message is one printable sentence with the remedy."""

    def __init__(self, message: str) -> None:
        super().__init__(harmless(message))


class EarlierProblem(StoreError):
    """Trials of a user's problem with an earlier reference or earlier arguments."""


class UnknownOperator(StoreError):
    """Problems of an operator that is not registered in this process: a user's kernel, or another package's."""

    def __init__(self, database: str, operator: str) -> None:
        super().__init__(
            f"{database} holds problems of {operator!r:.60}, an operator that is not known here: give its kernel file "
            "(--kernel FILE) or its tile program (--program FILE), or install the package that has it"
        )
