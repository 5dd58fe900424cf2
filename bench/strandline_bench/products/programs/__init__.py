"""Programs of each product for each job, following the product's documentation.

A program runs in its product's environment, without Strandline, and imports only that product.
"""
