"""Local mode: the resources of a file, run as processes on this machine instead of as pods.

The same YAML, the same reconcile and the same documents as in a cluster; only the last step differs, which
starts the containers of the Deployment as processes.
"""
