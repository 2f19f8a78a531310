"""How does this machine compile the emulator's runner, and where is it kept?

Start at ``build.py``. ``parts.py`` divides the sources into translation units, ``status.py`` shows progress, and
``prebuilt.py`` finds a runner that a wheel brought. Objects are kept by content, so an interrupted build continues.
This room must not import ``ptx``.
"""
