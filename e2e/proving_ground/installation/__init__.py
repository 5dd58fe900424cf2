"""Cluster setup before a scenario: Strandline, KubeRay, policies, and the plugin."""
