"""Compile and keep the emulator's runner on this machine.

Start at ``build.py``. ``parts.py`` divides the sources into translation units, ``status.py`` shows progress, and
``prebuilt.py`` finds a runner that a wheel brought. Objects are kept by content, so an interrupted build continues.
Nothing here knows PTX.
"""
