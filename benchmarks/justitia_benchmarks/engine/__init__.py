"""`make bench-engine`: policies inside a real vLLM, and in front of one, on the same machine."""
