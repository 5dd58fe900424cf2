"""Pods without a node: what schedulers and autoscalers report, and what an attempt makes of it."""
