"""The loop that observes and acts through servers. It makes no decisions."""
