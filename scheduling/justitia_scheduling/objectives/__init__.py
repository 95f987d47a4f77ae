"""Service level objectives: what was attained, and the gamma that follows from it."""
