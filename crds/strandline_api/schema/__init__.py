"""The models as Kubernetes' own schema, and the definitions that are made of it.

It must not know what the fields mean.
"""
