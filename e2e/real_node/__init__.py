"""A real Kubernetes node on this machine, in its own namespaces, for the duration of a command.

    python -m real_node up --folder FOLDER -- COMMAND ...

The public interface is `real_node.node`. This package must not depend on the node's workloads.
"""
