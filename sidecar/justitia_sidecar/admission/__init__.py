"""When a request goes to the engine, and what it is charged."""
