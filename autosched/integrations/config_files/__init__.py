"""Verify the JSON files of tuned configurations of vLLM and SGLang, and tune new configurations.

Start at ``files.py``, which reads these files. ``file_names.py`` parses file names and needs no torch.
``verify_config.py`` verifies a configuration without a GPU, and ``tuning/`` searches for new configurations. This
package must not import ``autosched.cli`` or another integration.
"""
