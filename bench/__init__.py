"""Benches: real work, figures against targets, misses shown. `make bench-NAME` runs `python -m bench.NAME`."""
