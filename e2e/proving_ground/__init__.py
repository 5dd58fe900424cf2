"""Tools for scenarios on a real cluster. They use only Strandline's public interfaces."""
