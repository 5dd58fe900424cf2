"""Measures one task that becomes very many tasks: memory use, and use of all workers."""
