"""The only package that connects to servers: the Kubernetes API, and the drivers of attempts."""
