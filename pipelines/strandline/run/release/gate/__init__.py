"""Requirements that a complete run has to meet before readers see its outputs."""
