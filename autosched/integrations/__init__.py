"""How do other projects use our schedules, and how do we use their files?

Start at ``config_files/`` (vLLM and SGLang); each project has a folder: ``helion/``, ``inductor/``, ``flashinfer/`` and
``tunableop/``. Rooms below reach them by name through ``autosched.registry`` and never import them. A folder here may
import every room except ``autosched.cli``, and must not import another folder here.
"""
