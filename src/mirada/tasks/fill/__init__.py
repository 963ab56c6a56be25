"""fill: texts with a gap in, the missing words out; and whether one sentence follows another."""
