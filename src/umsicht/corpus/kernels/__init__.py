"""Compiled inner loops over UTF-8 bytes, each with a plain-Python twin in `oracle.py` that the tests hold it to."""
