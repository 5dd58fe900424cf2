"""The loop that talks to servers. It makes no decisions."""
