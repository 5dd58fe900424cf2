"""Programs that run each job with each product, as the product's documentation recommends.

A program runs in its product's environment, without Strandline, and imports only that product.
"""
