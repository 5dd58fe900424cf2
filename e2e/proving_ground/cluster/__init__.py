"""Access to the scenarios' cluster: its API and its volumes."""
