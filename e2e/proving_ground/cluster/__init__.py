"""The cluster of scenarios: its API and volumes."""
