"""The process: its Lease, what it watches, when it decides, and the requests that it sends."""
