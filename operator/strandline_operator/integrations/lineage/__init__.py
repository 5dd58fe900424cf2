"""Reports of attempts to lineage systems through OpenLineage, enabled in the environment."""
