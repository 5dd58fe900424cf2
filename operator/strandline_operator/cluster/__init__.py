"""The one room that talks to servers: Kubernetes' API, and the drivers of attempts."""
