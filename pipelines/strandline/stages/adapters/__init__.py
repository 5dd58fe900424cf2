"""Steps of other curation libraries as stages: dependencies of whoever names them, no copies."""
