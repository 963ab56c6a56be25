"""Models from outside, beside Hugging Face transformers: `python -m benchmarks.hub tuning`.

`tuning`: a step of fine-tuning a BERT of MiniLM's size with a new head, the same batches, weights and optimizer.
"""

import sys
from collections.abc import Callable

import torch
from benchmarks.ratios import HEADER, race
from torch import Tensor, nn

from mirada.hub.families import family
from mirada.models.encoder import TextEncoder
from mirada.training.optimizer import adam, clip
from mirada.training.recipe import Tuning
from mirada.training.tuning import attach

SIZES = {
    "vocab_size": 30_522, "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12,
    "intermediate_size": 1536, "max_position_embeddings": 512, "num_labels": 2,
}  # fmt: skip
ROUNDS = 12


def batch(texts: int, longest: int) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens of texts of similar lengths, as a bucketed batch has them, their lengths and classes."""
    draw = torch.Generator().manual_seed(0)
    lengths = torch.randint(longest - longest // 8, longest + 1, (texts,), generator=draw)
    lengths[0] = longest
    tokens = torch.randint(1000, 30_000, (texts, longest), generator=draw)
    return tokens.masked_fill(torch.arange(longest) >= lengths[:, None], 0), lengths, torch.arange(texts) % 2


def theirs() -> nn.Module:
    """Their model of this size, with random weights."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    return BertForSequenceClassification(BertConfig(**SIZES)).train()


def ours(model: nn.Module) -> TextEncoder:
    """Our model with the weights of theirs."""
    described = model.config.to_dict() | {"architectures": [type(model).__name__]}
    return family(described).load(described, model.state_dict()).train()  # type: ignore[no-any-return,attr-defined]


def stepper(model: nn.Module, loss: Callable[[], Tensor]) -> Callable[[], float]:
    """One update: forward, backward, clip, Adam."""
    optimizer = adam(model, 2e-5, 0.01)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        value = loss()
        value.backward()
        clip(parameters, 1.0)
        optimizer.step()
        return value.item()

    return step


def tuning() -> None:
    """Steps of fine-tuning, theirs over ours: above 1, ours are faster."""
    print(HEADER)
    for texts, longest in ((32, 32), (16, 128)):
        tokens, lengths, classes = batch(texts, longest)
        real = (torch.arange(longest) < lengths[:, None]).long()
        for word in ("all", "head"):
            peer = theirs()
            model = ours(peer)
            attach(model, Tuning.parse(word))
            model.train()
            if word == "head":
                peer.base_model.requires_grad_(False)
                peer.base_model.pooler.requires_grad_(True)
            own = stepper(model, lambda model=model, t=tokens, n=lengths, c=classes: model.loss(t, c, n))
            base = stepper(
                peer, lambda p=peer, t=tokens, m=real, c=classes: p(input_ids=t, attention_mask=m, labels=c).loss
            )
            print(race(base, own, ROUNDS).row(f"{texts} texts of {longest}, tune={word}"))


if __name__ == "__main__":
    {"tuning": tuning}[sys.argv[1]]()
