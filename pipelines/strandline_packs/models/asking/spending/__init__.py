"""Costs of requests: the account shared by a pipeline's workers, with its rates and budget.

The package must not depend on the content of requests, or how they travel.
"""
