"""Predicts what a run will cost from its first request: features, models, training, and artifacts that hold models."""
