"""One request: who sent it, what it asks for, its wait, its bytes to the engine and back."""
