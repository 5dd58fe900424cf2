"""What passes remember of each other so that the API server is asked less often.

Each may be emptied at any time. It must not know what is decided from it.
"""
