"""Interprets reports of schedulers and autoscalers about pods that have no node."""
