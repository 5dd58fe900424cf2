"""Where kopf calls us: start and stop, and our two kinds' events. Nothing is decided here."""
