"""How much the operator does how fast, and what it takes for it, on a cluster whose nodes and pods are simulated."""
