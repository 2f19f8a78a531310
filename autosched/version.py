"""The version, for packaging too; known also where autosched runs from a folder and is not installed."""

VERSION = "0.1.0"
