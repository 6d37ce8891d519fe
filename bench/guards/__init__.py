"""The cost of the monitors."""
