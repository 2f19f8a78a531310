"""The version of autosched, also for packaging. It is available even if autosched is not installed."""

VERSION = "0.1.0"
