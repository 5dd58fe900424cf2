"""One task that becomes very many: memory, and who works on them."""
