"""The commands: one file for each, named like it; ``sharing`` has export, import, merge and db.

A command parses options, calls one function of another room and prints. It decides nothing itself.
"""
