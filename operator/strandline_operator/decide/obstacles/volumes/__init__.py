"""Claims and their volumes: creation, problems, and attachment to other nodes."""
