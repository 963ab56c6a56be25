"""Bridges to other libraries: their layers and checkpoints as ours."""
