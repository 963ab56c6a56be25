"""Content-free scores on a grid without a normalizer: a depthwise convolution, and computed as one."""

import torch.nn.functional as F
from einops import rearrange, repeat

from mirada.attention.kernels.request import Kernel, KernelOutput, Request
from mirada.attention.neighborhoods import Complete, Grid
from mirada.attention.normalizers import Identity
from mirada.attention.scores import Offset


class Convolution(Kernel):
    """Unbounded weights per offset on a grid: a depthwise convolution."""

    name = "convolution"

    def refuses(self, request: Request) -> str | None:
        score, where = request.score, request.where
        # a subclass that overrides one of these scores something else
        same = all(getattr(type(score), name) is getattr(Offset, name) for name in ("queries", "keys", "compare"))
        if not isinstance(score, Offset) or not same:
            return "the score depends on the content, not on the offset alone"
        if type(request.normalizer) is not Identity:
            return f"a convolution's weights are not normalized by {type(request.normalizer).__name__}"
        if request.position.acts or request.position.inside:
            return f"{type(request.position).__name__} is no part of a convolution"
        same_grid = type(where) is Grid and (where.height, where.width) == (score.height, score.width)
        if not (same_grid or type(where) is Complete):
            return f"{where} is not the grid of {score.height} x {score.width} cells"
        if 0 in request.v.shape:
            return f"nothing to convolve: v {tuple(request.v.shape)}"
        return None

    def run(self, request: Request) -> KernelOutput:
        score, where = request.score, request.where
        assert isinstance(score, Offset)
        radius = min(score.radius, where.radius) if isinstance(where, Grid) else score.radius
        cut = slice(score.radius - radius, score.radius + radius + 1)
        weight = score.weight[:, cut, cut].expand(request.heads, -1, -1)
        _, v = request.visible()
        picture = rearrange(v, "b h (y x) d -> b (h d) y x", y=score.height)
        kernel = repeat(weight.to(v.dtype), "h y x -> (h d) 1 y x", d=v.shape[-1])
        output = F.conv2d(picture, kernel, padding=radius, groups=picture.shape[1])
        return KernelOutput(rearrange(output, "b (h d) y x -> b h (y x) d", h=request.heads))
