"""What is to be written and said: resources and what was seen of the cluster in, plans and conditions out. Pure."""
