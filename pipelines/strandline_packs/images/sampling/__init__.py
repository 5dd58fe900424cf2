"""Samples of rows for `strandline report`: pictures, sounds, and texts for each outcome."""
