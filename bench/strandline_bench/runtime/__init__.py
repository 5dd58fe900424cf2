"""What a run costs beside its stages: a command, a task, an output, a node."""
