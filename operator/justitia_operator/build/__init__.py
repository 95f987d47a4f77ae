"""What the objects of a pool contain. Pure: nothing here looks at a cluster."""
