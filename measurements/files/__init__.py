"""What has nothing to do with GPUs: text, atomic writes, the cache folder."""
