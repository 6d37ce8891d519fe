"""Reading logs, our own and other people's, into curves with Umsicht's names."""

from umsicht.diagnose.logs.open import read_log

__all__ = ["read_log"]
