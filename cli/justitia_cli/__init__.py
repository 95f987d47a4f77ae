"""The `justitia` command."""
