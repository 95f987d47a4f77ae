"""Words that every part uses, each defined once. Standard library only: it is delivered into vLLM too."""
