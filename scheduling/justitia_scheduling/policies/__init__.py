"""The policies that a pool may choose. Delivered into vLLM with `core`."""
