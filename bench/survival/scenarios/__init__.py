"""The twenty faults."""
