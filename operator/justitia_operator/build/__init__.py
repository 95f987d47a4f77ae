"""What the objects of a pool contain. Pure."""
