"""Compilation and storage of the emulator's runtime on this machine.

Start at ``build.py``. ``parts.py`` divides the sources into translation units, ``status.py`` shows progress, and
``prebuilt.py`` finds a compiled runtime in a wheel. Objects are cached by the digest of their sources, so an
interrupted build continues where it stopped. This package must not import ``ptx``.
"""
