"""One real Kubernetes node on this machine, with the operator installed, for people who try it and for tests."""
