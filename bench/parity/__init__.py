"""Parity: our arithmetic against the libraries that others use, and our exports in their hands."""
