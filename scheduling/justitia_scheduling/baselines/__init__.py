"""Policies of the papers, to compare with in simulation and benchmarks. Not delivered."""
