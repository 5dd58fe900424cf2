"""Documents into models: strictly as a person wrote them, patiently as a cluster stored them.

It must not know where a document came from.
"""
