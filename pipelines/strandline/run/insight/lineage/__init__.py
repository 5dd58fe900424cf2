"""Reports attempts to lineage systems through OpenLineage. Disabled unless configured."""
