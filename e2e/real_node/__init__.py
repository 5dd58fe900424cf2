"""One real Kubernetes node on this machine, in namespaces of its own, for as long as a command.

    python -m real_node up --folder FOLDER -- COMMAND ...

What is for others is in `real_node.node`. This package must not know what runs on the node.
"""
