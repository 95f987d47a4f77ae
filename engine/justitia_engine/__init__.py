"""Orders vLLM's own queue: a scheduler that vLLM loads by name, and its link to the sidecar."""
