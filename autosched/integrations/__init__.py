"""How do other projects use our schedules, and how do we use their files?

One folder for each project: ``config_files/`` (vLLM and SGLang), ``helion/``, ``inductor/``, ``flashinfer/`` and
``tunableop/``. Rooms below reach them by name through ``autosched.registry`` and never import them. A folder here may
import every room except ``autosched.cli``, and no other folder here.
"""
