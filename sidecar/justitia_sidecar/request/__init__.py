"""One request: its body, its wait, its bytes to the engine and back."""
