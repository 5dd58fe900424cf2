"""Where the stand-in talks to servers, again and again; it decides nothing."""
