"""The doors: a port for clients, one for the cluster, one for the operator, and their connections."""
