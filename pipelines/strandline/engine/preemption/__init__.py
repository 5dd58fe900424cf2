"""What nodes that go mean for work: what a death is blamed on, and what begins anew. Pure.

It must not know Ray, nor how a node's death or its notice is learnt of.
"""
