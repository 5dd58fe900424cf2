"""The commands of `kubectl strandline`: counterparts of the local commands for a cluster."""
