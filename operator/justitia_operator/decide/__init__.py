"""What to write, and what conditions say: from resources and the observed cluster to plans. Pure."""
