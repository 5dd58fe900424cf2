"""Reports attempts to lineage systems through OpenLineage, if the environment enables it."""
