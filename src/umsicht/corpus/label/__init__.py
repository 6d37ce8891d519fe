"""Labels: what a document is, said before anybody decides what to do with it."""
