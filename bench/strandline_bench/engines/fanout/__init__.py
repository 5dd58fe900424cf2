"""One task that becomes very many: memory, and the workers that share them."""
