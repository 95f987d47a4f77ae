"""The endpoint picker: a process beside the sidecar, which gateways ask which pod gets a request."""
