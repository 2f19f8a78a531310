"""Are the JSON files of tuned configurations that vLLM and SGLang ship correct, and which are faster?

Start at ``files.py``, which reads and writes them; ``file_names.py`` parses their names and needs no torch.
``verify_config.py`` verifies each configuration without a GPU, and ``tuning/`` finds new ones. This room must not
import ``autosched.cli`` or another integration.
"""
