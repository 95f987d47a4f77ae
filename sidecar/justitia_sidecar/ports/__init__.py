"""The doors: the port for clients, that for the cluster, that for the operator, and the connections behind them."""
