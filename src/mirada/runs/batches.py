"""What a task from outside imports to make batches: all of it is in `data/batching.py`."""

from mirada.data.batching import (
    Bucketed,
    EncodedRecords,
    Examples,
    FixedSize,
    MeasuredExamples,
    Whole,
    in_buckets,
    in_sequence,
)

__all__ = [
    "Bucketed",
    "EncodedRecords",
    "Examples",
    "FixedSize",
    "MeasuredExamples",
    "Whole",
    "in_buckets",
    "in_sequence",
]
