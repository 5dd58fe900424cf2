"""What a spec says of pods: templates, variables, volumes.

It must not know which pods there are.
"""
