"""The rules for what follows the end of an attempt, shared by laptop and cluster.

This package is pure: it must not depend on clocks, processes, or Kubernetes objects.
"""
