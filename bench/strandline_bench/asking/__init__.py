"""What requests to models cost beside their bare client, and what their log costs."""
