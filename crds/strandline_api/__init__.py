"""The contract between the cluster side and the data side of Strandline.

Names, exit codes, causes, and the fields of the API live here. Both sides import this package,
which imports neither of them. Modules are imported individually: a worker that needs the causes
need not load the models of a manifest.
"""
