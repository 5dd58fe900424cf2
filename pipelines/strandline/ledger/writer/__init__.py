"""Writes the ledger, and decides when and in which order data becomes durable."""
