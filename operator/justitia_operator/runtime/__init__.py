"""When the operator looks, decides and writes: the process, its Lease, what it watches, the requests it sends."""
