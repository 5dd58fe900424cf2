"""Previews of plans, as text or plain data."""
