"""Integrations with other projects. An integration uses autosched within a project, or reads and writes its files.

Start at ``config_files/`` (vLLM and SGLang). ``helion/``, ``inductor/``, ``flashinfer/`` and ``tunableop/`` integrate
one project each. Other packages load integrations by name through ``autosched.registry`` and never import them. A
folder may import every package except ``autosched.cli``, and must not import another integration.
"""
