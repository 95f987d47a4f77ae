"""What every policy is made of: the event interface and its books, costs, queues, counters, estimates."""
