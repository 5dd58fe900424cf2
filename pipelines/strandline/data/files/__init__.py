"""Files behind a path or URL: finding, listing, opening, and naming."""
