"""Translation of PTX to the emulator's bytecode.

Start at ``bytecode.py``, which generates bytecode for the runtime. ``parser.py`` parses the text. ``declarations.py``
checks variables against hardware limits. ``forms.py`` and ``families/`` convert operands to the order that the runtime
expects. This package must not import ``emulator.py``.
"""
