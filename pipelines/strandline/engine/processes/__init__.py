"""The engine for one machine, with forked workers and without a cluster."""
