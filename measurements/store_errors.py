"""What a database that cannot be used raises; without sqlalchemy, for which commands that open none need not wait."""

from measurements.foreign_text import harmless


class StoreError(ValueError):
    """The database cannot be used. The message is one sentence that says what to do, and safe to print."""

    def __init__(self, message: str) -> None:
        super().__init__(harmless(message))
