"""What the sidecar says of itself."""
