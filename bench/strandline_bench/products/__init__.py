"""Compares Strandline with other products for whole jobs, and with libraries for single stages."""
