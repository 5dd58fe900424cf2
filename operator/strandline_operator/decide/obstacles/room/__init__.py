"""Pods without a node: reports of schedulers and autoscalers, and consequences for an attempt."""
