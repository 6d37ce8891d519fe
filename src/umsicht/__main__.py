"""`python -m umsicht`."""

from umsicht.cli import main

main()
