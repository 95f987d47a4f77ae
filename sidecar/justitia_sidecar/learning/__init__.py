"""What is learned from runs, and what is predicted of them. `learner.py` puts the parts together."""
