"""Requirements that a complete run has to meet before readers are led to its outputs."""
