"""Beside the weights: gradients, rollout, ablation, importance, relations, alignment."""
