"""Content of the sections of the report's page. Pure."""
