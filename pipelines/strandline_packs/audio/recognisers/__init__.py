"""Speech recognisers behind one interface."""
