"""Where time goes: profiles of the engine and of stages."""
