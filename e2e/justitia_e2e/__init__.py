"""One real Kubernetes node on this machine, with the operator installed: for people to try it, for tests to show it."""
