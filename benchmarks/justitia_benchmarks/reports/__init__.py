"""Plots and claims of the experiments, apart from what computes their figures: a change here runs nothing again."""
