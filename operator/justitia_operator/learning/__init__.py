"""Which version of a predictor an application uses, and when a new one is trained. Pure."""
