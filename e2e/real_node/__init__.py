"""Runs a real Kubernetes node on this machine, in its own namespaces, while a command runs.

    python -m real_node up --folder FOLDER -- COMMAND ...

The public interface is `real_node.node`. This package must not depend on the node's workloads.
"""
