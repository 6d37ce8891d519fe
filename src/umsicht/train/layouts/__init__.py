"""One file for each kind of parallelism; `umsicht.train.parallel` puts them together."""
