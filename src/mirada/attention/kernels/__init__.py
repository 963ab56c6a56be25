"""Ways to compute the equation. `reference` is its meaning; the others are fast and equal to it."""
