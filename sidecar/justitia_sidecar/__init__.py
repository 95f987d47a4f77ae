"""Authenticates, recognises runs, orders and forwards requests to the engine, and accounts for them."""
