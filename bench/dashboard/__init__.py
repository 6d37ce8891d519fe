"""`make bench-dashboard`."""
