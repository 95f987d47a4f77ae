"""What the sidecar reports of itself."""
