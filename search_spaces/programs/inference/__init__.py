"""Which thread has which element of each value, as expressions over what a schedule decides."""
