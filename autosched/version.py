"""The version of autosched. Packaging reads it from this file, and it is available even without installation."""

VERSION = "0.1.0"
