"""What is decided of one attempt, from its RayJob to the reasons of its end.

Pure. It must not know the other attempts of its pipeline.
"""
