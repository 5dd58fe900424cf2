"""What stands on a cluster before a scenario begins: Strandline, KubeRay, policies, the plugin."""
