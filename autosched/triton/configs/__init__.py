"""The JSON files of tuned configurations that vLLM and SGLang ship: read, judged without a GPU, written."""
