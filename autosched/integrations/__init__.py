"""Integrations with other projects: use autosched within a project, or read and write a project's files.

Start at ``config_files/`` (vLLM and SGLang). ``helion/``, ``inductor/``, ``flashinfer/`` and ``tunableop/`` integrate
one project each. Other packages load integrations by name through ``autosched.registry`` and never import them. A
folder may import every package except ``autosched.cli``, and must not import another integration.
"""
