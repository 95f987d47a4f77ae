"""What a run will cost, from what its first request shows: features, models, training, and artifacts that hold them."""
