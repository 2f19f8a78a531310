"""Integrations with other projects: autosched in these projects, and their files in autosched.

Start at ``config_files/`` (vLLM and SGLang); each project has a folder: ``helion/``, ``inductor/``, ``flashinfer/``
and ``tunableop/``. Other packages load them by name through ``autosched.registry`` and never import them. A folder
may import every package except ``autosched.cli``, and must not import another integration.
"""
