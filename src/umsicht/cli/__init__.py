"""The command line: one module a verb; each parses, calls one function, prints.

`main` imports a verb's module only when that verb is called, so that `umsicht --help` needs no torch.
"""

from umsicht.cli.main import main

__all__ = ["main"]
