"""The JSON files of tuned configurations that vLLM and SGLang ship.

Start at ``files.py``, which reads and writes them; ``file_names.py`` parses their names and needs no torch.
``judge_config.py`` verifies each configuration without a GPU, and ``tuning/`` finds new ones.
This room imports no other integration.
"""
