"""What lineage systems are told of attempts, by OpenLineage; off unless the environment asks."""
