"""Faults on real jobs: real processes, signals, disks and networks; what each fault cost, beside what it may cost."""
