"""Files and texts that have nothing to do with GPUs: atomic writes, the cache folder, texts of strangers."""
