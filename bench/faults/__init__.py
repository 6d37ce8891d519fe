"""The fault bench: known faults planted in working pipelines; what the guards call them, when, and what they say of healthy runs."""
