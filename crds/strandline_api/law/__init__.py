"""What follows from an attempt's end, the same on a laptop and on a cluster.

Pure: it must not know a clock, a process or an object of Kubernetes.
"""
