"""A discrete-event engine, workload and result files, for the same policies that serve real traffic."""
