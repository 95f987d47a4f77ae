"""`make bench-learning-engine`: what predictors learn from runs that a real vLLM served, and what that is worth."""
