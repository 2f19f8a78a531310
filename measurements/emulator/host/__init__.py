"""Compilation and storage of the emulator's runtime on this machine.

Start at ``build.py``. ``parts.py`` divides the sources into translation units, ``status.py`` shows progress, and
``prebuilt.py`` finds a runtime that is part of a wheel. Objects are kept by content, so an interrupted build
continues. This package must not import ``ptx``.
"""
