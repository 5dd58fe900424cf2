"""Examines claims and their volumes: creation, problems, and attachments to other nodes."""
