"""Measures one task that becomes very many: memory use, and use of all workers."""
