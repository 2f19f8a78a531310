"""JSON files of tuned configurations of vLLM and SGLang: verification, and tuning of new ones.

Start at ``files.py``, which reads and writes them; ``file_names.py`` parses their names and needs no torch.
``verify_config.py`` verifies each configuration without a GPU, and ``tuning/`` finds new ones. This package must not
import ``autosched.cli`` or another integration.
"""
