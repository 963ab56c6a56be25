"""One early call of each vectorized function, on one element and one thread.

The math library behind PyTorch may answer its first call of a function wrongly (errors of 1e-4) if several threads make
it at once (pytorch#188792). After a first call it does not.
"""

import torch
import torch.nn.functional as F

FUNCTIONS = (torch.exp, torch.log, torch.tanh, torch.sigmoid, torch.sin, torch.cos)


def warm_up() -> None:
    """Call every function once, and with it the matrix product that fused kernels make from several threads."""
    for dtype in (torch.float32, torch.float64):
        one = torch.ones(1, 1, 1, 1, dtype=dtype)
        for function in FUNCTIONS:
            function(one)
        torch.mm(one[0, 0], one[0, 0])
        F.scaled_dot_product_attention(one, one, one)
