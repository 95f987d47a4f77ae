"""What the sidecars of a pool tell each other, and how a request finds an engine."""
