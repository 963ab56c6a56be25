"""Three neighborhoods, three known layers: attention over a grid, a complete graph and a bipartite graph.

grid         free weights per offset, no softmax, values as they are, a bias: a depthwise convolution
complete     every node sees every node: self-attention
bipartite    decoder nodes see encoder nodes, nothing else: encoder-decoder attention

Each is computed twice, as attention over the graph and by the layer it should equal. Lectures, row 1.6.
"""

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from mirada import Attention, MultiHead
from mirada.attention.heads import Split
from mirada.attention.neighborhoods import Edges, Grid
from mirada.attention.normalizers import Identity
from mirada.attention.scores import Offset

BATCH, CHANNELS, HEIGHT, WIDTH = 2, 3, 5, 7  # a picture
ENCODER, DECODER, NODE_WIDTH = 5, 3, 8  # a graph


def convolution_layer(channels: int, height: int, width: int) -> Attention:
    """A depthwise 3 x 3 convolution as attention over the grid: one head per channel."""
    layer = Attention(
        Split(channels, heads=channels, bias=True),
        score=Offset(height, width, radius=1, heads=channels),
        where=Grid(height, width, radius=1),
        normalizer=Identity(),
    )
    torch.nn.init.normal_(layer.heads.bias)
    return layer


def convolve(layer: Attention, picture: Tensor) -> tuple[Tensor, Tensor]:
    """A picture (batch, channels, height, width) through the layer, and through torch with the layer's weights."""
    cells = rearrange(picture, "b c h w -> b (h w) c")
    by_attention = rearrange(layer(cells), "b (h w) c -> b c h w", h=picture.shape[2])
    kernel = rearrange(layer.score.weight, "c h w -> c 1 h w")
    return by_attention, F.conv2d(picture, kernel, layer.heads.bias, padding=1, groups=len(kernel))


def complete_graph(nodes: int) -> Edges:
    """An edge from every node to every node, itself included."""
    return Edges(torch.cartesian_prod(torch.arange(nodes), torch.arange(nodes)).T, nodes)


def bipartite_graph(encoder: int, decoder: int) -> Edges:
    """An edge from each of the first `encoder` nodes to each of the `decoder` nodes after them."""
    sources, targets = torch.arange(encoder), torch.arange(encoder, encoder + decoder)
    return Edges(torch.cartesian_prod(sources, targets).T, encoder + decoder)


def self_attention(layer: Attention, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """Attention over the complete graph, and self-attention."""
    return layer(nodes, where=complete_graph(nodes.shape[1])), layer(nodes)


def encoder_decoder(layer: Attention, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The decoder nodes of attention over the bipartite graph, and attention of the decoder over the encoder."""
    encoder, decoder = source.shape[1], target.shape[1]
    nodes = torch.cat([source, target], dim=1)
    return layer(nodes, where=bipartite_graph(encoder, decoder))[:, encoder:], layer(target, memory=source)


def difference(pair: tuple[Tensor, Tensor]) -> float:
    return (pair[0] - pair[1]).abs().max().item()


@torch.no_grad()
def main() -> None:
    torch.manual_seed(0)
    layer = convolution_layer(CHANNELS, HEIGHT, WIDTH)
    convolved = convolve(layer, torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH))
    print(f"grid {HEIGHT} x {WIDTH}: how many cells each cell sees (nine inside, fewer at the border)")
    counts = layer.where.dense(HEIGHT * WIDTH, HEIGHT * WIDTH)[0, 0].sum(-1).view(HEIGHT, WIDTH)
    print("\n".join("".join(f"{count:4}" for count in row) for row in counts.tolist()))
    print("\nchannel 0: a weight per offset, and a bias")
    print("\n".join("".join(f"{weight:8.3f}" for weight in row) for row in layer.score.weight[0]))
    print(f"    bias{layer.heads.bias[0]:8.3f}")

    graph = Attention(MultiHead(NODE_WIDTH, heads=2))
    source, target = torch.randn(BATCH, ENCODER, NODE_WIDTH), torch.randn(BATCH, DECODER, NODE_WIDTH)
    rows = (
        ("grid", "torch conv2d", HEIGHT * WIDTH, int(counts.sum()), convolved),
        ("complete", "self-attention", ENCODER, ENCODER**2, self_attention(graph, source)),
        ("bipartite", "encoder-decoder", ENCODER + DECODER, ENCODER * DECODER, encoder_decoder(graph, source, target)),
    )
    print(f"\n{'graph':11}{'equals':17}{'nodes':>7}{'edges':>7}{'largest difference':>21}")
    for name, equal, nodes, edges, pair in rows:
        print(f"{name:11}{equal:17}{nodes:7}{edges:7}{difference(pair):21.0e}")


if __name__ == "__main__":
    main()
