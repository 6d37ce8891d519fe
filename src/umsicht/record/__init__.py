"""What happened, on disk, in plain files: ids, artifacts, runs, metrics, lineage.

This package knows no other package of Umsicht; whatever it writes can be read without Umsicht.
"""

from umsicht.record.artifact import Artifact, Store
from umsicht.record.files import atomic_folder, atomic_json, atomic_write
from umsicht.record.ids import content_id, file_digest, short
from umsicht.record.metrics import Metrics, MetricsWriter, read_metrics
from umsicht.record.progress import QUIET, Progress
from umsicht.record.run import Run

__all__ = [
    "QUIET",
    "Artifact",
    "Metrics",
    "MetricsWriter",
    "Progress",
    "Run",
    "Store",
    "atomic_folder",
    "atomic_json",
    "atomic_write",
    "content_id",
    "file_digest",
    "read_metrics",
    "short",
]
