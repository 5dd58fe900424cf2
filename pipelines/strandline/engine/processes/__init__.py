"""The engine of one machine: workers that are forked, and no cluster beside them."""
