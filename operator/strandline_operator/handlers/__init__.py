"""Where kopf calls us: start and stop, our two kinds' events, liveness. Nothing is decided here."""
