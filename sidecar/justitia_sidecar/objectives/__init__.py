"""What applications declared, what became of it, and the gamma that follows."""
