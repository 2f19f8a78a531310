"""Tables of measured configurations that come as files, to search in again and to learn from: ``reading``."""
