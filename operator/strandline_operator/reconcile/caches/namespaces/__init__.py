"""What a namespace has in store for all of its pipelines."""
