"""The terminal: progress, tables, streams, interrupts, errors."""
