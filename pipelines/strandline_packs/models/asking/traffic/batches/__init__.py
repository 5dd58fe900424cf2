"""Vendors' batch interfaces, which answer within a day for half the price."""
