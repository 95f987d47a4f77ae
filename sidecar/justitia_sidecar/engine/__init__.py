"""The engine: its server, the channel to the plug-in inside it, whether it hangs."""
