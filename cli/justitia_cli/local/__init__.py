"""Local mode: runs the resources of a file as processes on this machine, instead of as pods.

YAML, reconcile and documents are the same as in a cluster. Only the last step differs: it starts the containers of the
Deployment as processes.
"""
