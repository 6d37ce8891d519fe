"""Labelled curves: the generator, the records it made, and the score of the diagnosis on them."""
