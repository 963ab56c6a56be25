"""The mechanism: h_i = sum over j in N(i) of alpha(x_i, x_j) psi_v(x_j), one factor per file."""

from mirada.lazy import submodules

__getattr__ = submodules(__name__)
