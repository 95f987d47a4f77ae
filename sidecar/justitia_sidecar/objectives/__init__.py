"""The objectives that applications declare, what became of them, and the gamma that follows."""
