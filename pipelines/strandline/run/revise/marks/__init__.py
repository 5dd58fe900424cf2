"""What filters have marked, and what some rows tell of all: limits of filters, costs of models.

It must not know how that is shown.
"""
