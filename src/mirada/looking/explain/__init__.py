"""Explanations in addition to weights: gradients, rollout, ablation, importance, relations, alignment."""
