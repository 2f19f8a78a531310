"""What a database that cannot be used raises; without sqlalchemy, for which commands that open none need not wait."""

from measurements.files.text import harmless


class StoreError(ValueError):
    """The database cannot be used. The message is one sentence that says what to do, and safe to print."""

    def __init__(self, message: str) -> None:
        super().__init__(harmless(message))


class EarlierProblem(StoreError):
    """Trials of a problem that a user's file described otherwise then: its reference or arguments have been edited."""


class UnknownOperator(StoreError):
    """Problems of an operator that nobody has registered in this process: a user's kernel, or another package's."""

    def __init__(self, database: str, operator: str) -> None:
        super().__init__(
            f"{database} holds problems of {operator!r:.60}, an operator that is not known here: give its kernel file "
            "(--kernel FILE) or its tile program (--program FILE), or install the package that has it"
        )
