"""What status and conditions say of objectives and gamma, from the counts of all pods. Pure."""
