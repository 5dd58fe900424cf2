"""Pods without a node: what schedulers and autoscalers report, and how this affects an attempt."""
