"""What every room knows: objects, their names and references, and the cluster as last seen."""
