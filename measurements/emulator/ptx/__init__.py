"""What does this PTX do?

Start at ``bytecode.py``, which makes bytecode for the runtime. ``parser.py`` parses the text, ``declarations.py``
checks variables against the limits of the architecture, and ``forms.py`` and ``families/`` bring operands into the
order that the runtime expects. Nothing is executed here: this room must not import ``emulator.py``.
"""
