"""The papers' evaluations and our own, run again from one command, and how fast the policies decide."""
