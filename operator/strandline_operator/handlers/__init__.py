"""Entry points for kopf: start, stop, and events of Strandline's two kinds. No decisions."""
