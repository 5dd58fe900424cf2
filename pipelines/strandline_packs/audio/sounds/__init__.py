"""Decoding, packing, and measuring of sounds, without knowledge of stages."""
