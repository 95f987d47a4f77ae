"""What the sidecar and the plug-in inside vLLM say to each other. Delivered into vLLM too."""
