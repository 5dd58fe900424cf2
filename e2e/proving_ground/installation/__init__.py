"""Sets up a cluster for scenarios: Strandline, KubeRay, policies, and the plugin."""
