"""The contract between the operator and the runtime of Strandline.

This package defines names, exit codes, causes, and the fields of the API. Operator and runtime
import this package, which imports neither. Modules are imported individually: a worker that needs
the causes need not load the models of a manifest.
"""
