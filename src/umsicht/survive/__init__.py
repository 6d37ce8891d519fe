"""Runs that outlive their processes: a supervisor around the ranks, heartbeats, restarts, and the record of what a fault cost."""
