"""The commands of `kubectl strandline`: what the others are on a machine, asked of a cluster."""
