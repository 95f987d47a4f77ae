"""Learns from runs, and predicts what they will cost. `learner.py` puts the parts together."""
