"""The engine for one machine: forked workers, without a cluster."""
