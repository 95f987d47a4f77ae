"""`make bench-adversaries`: a paying tenant on a real pool, alone with its share and beside all adversaries at once."""
