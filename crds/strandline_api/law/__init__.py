"""Rules for further attempts after an attempt has ended, shared by laptop and cluster.

This package is pure: it must not depend on clocks, processes, or Kubernetes objects.
"""
