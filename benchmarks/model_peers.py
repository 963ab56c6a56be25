"""What else trains the same models: the peers our models are measured against, each as its users would write it."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mirada.attention.positions import Sinusoidal
from mirada.models.seq2seq import Seq2Seq

Loss = Callable[..., Tensor]


class TorchTransformer(nn.Module):
    """nn.Transformer between a shared embedding and a tied output."""

    def __init__(self, vocab: int, width: int, heads: int, hidden: int, depth: int, dropout: float) -> None:
        super().__init__()
        self.width = width
        self.words = nn.Embedding(vocab, width)
        nn.init.normal_(self.words.weight, std=width**-0.5)
        self.register_buffer("positions", Sinusoidal(width)(torch.arange(512)), persistent=False)
        self.drop = nn.Dropout(dropout)
        self.transformer = nn.Transformer(
            width, heads, depth, depth, hidden, dropout, batch_first=True, norm_first=True
        )  # fmt: skip

    def embed(self, tokens: Tensor) -> Tensor:
        return self.drop(self.words(tokens) * math.sqrt(self.width) + self.positions[: tokens.shape[1]])

    def loss(self, source: Tensor, lengths: Tensor, target: Tensor, wanted: Tensor) -> Tensor:
        padded = torch.arange(source.shape[1]) >= lengths[:, None]
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        h = self.transformer(
            self.embed(source), self.embed(target), tgt_mask=causal, tgt_is_causal=True,
            src_key_padding_mask=padded, memory_key_padding_mask=padded,
        )  # fmt: skip
        return F.cross_entropy((h @ self.words.weight.T).flatten(0, 1), wanted.flatten())


def marian(vocab: int, width: int, heads: int, hidden: int, depth: int, dropout: float) -> tuple[nn.Module, Loss]:
    """Hugging Face's Marian."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=vocab, d_model=width, encoder_layers=depth, decoder_layers=depth, encoder_ffn_dim=hidden,
        decoder_ffn_dim=hidden, encoder_attention_heads=heads, decoder_attention_heads=heads, dropout=dropout,
        attention_dropout=0.0, activation_dropout=0.0, activation_function="relu", max_position_embeddings=512,
        pad_token_id=0, decoder_start_token_id=1, scale_embedding=True, use_cache=False,
    )  # fmt: skip
    model = MarianMTModel(config)

    def loss(source: Tensor, lengths: Tensor, target: Tensor, wanted: Tensor) -> Tensor:
        real = (torch.arange(source.shape[1]) < lengths[:, None]).long()
        return model(input_ids=source, attention_mask=real, decoder_input_ids=target, labels=wanted).loss

    return model, loss


def x_transformer(
    vocab: int, width: int, heads: int, hidden: int, depth: int, dropout: float
) -> tuple[nn.Module, Loss]:
    """x-transformers' encoder and decoder, with its flash attention."""
    from x_transformers import Decoder, Encoder, TransformerWrapper

    settings = {
        "dim": width, "depth": depth, "heads": heads, "attn_dim_head": width // heads, "attn_flash": True,
        "ff_mult": hidden // width, "ff_dropout": dropout, "layer_dropout": 0.0, "attn_dropout": 0.0,
    }  # fmt: skip
    encoder = TransformerWrapper(
        num_tokens=vocab, max_seq_len=512, emb_dropout=dropout, attn_layers=Encoder(**settings)
    )  # fmt: skip
    decoder = TransformerWrapper(
        num_tokens=vocab, max_seq_len=512, emb_dropout=dropout, tie_embedding=True,
        attn_layers=Decoder(cross_attend=True, **settings),
    )  # fmt: skip
    decoder.token_emb = encoder.token_emb
    model = nn.ModuleList([encoder, decoder])

    def loss(source: Tensor, lengths: Tensor, target: Tensor, wanted: Tensor) -> Tensor:
        real = torch.arange(source.shape[1]) < lengths[:, None]
        memory = encoder(source, mask=real, return_embeddings=True)
        logits = decoder(target, context=memory, context_mask=real)
        return F.cross_entropy(logits.flatten(0, 1), wanted.flatten())

    return model, loss


class PlainGPT(nn.Module):
    """A GPT in as few lines as possible: one matrix for q, k and v, fused attention, tied output, logits all at once."""

    class Block(nn.Module):
        def __init__(self, width: int, heads: int, dropout: float) -> None:
            super().__init__()
            self.heads, self.dropout, self.drop = heads, dropout, nn.Dropout(dropout)
            self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Tensor) -> Tensor:
            batch, length, width = x.shape
            q, k, v = self.qkv(self.norm_1(x)).split(width, dim=2)
            q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in (q, k, v))
            dropout = self.dropout if self.training else 0.0
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
            x = x + self.drop(self.out(y.transpose(1, 2).reshape(batch, length, width)))
            return x + self.drop(self.down(F.gelu(self.up(self.norm_2(x)))))

    def __init__(self, vocab: int, width: int, heads: int, depth: int, length: int, dropout: float) -> None:
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.words, self.places = nn.Embedding(vocab, width), nn.Embedding(length, width)
        for table in (self.words, self.places):
            nn.init.normal_(table.weight, std=0.02)
        self.blocks = nn.Sequential(*(self.Block(width, heads, dropout) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)

    def loss(self, tokens: Tensor, wanted: Tensor) -> Tensor:
        x = self.drop(self.words(tokens) + self.places(torch.arange(tokens.shape[1])))
        logits = self.norm(self.blocks(x)) @ self.words.weight.T
        return F.cross_entropy(logits.flatten(0, 1), wanted.flatten())


def gpt2(vocab: int, width: int, heads: int, depth: int, length: int, dropout: float) -> tuple[nn.Module, Loss]:
    """Hugging Face's GPT-2."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=vocab,
            n_embd=width,
            n_layer=depth,
            n_head=heads,
            n_positions=length,
            resid_pdrop=dropout,
            embd_pdrop=dropout,
            attn_pdrop=dropout,
            use_cache=False,
            bos_token_id=0,
            eos_token_id=0,
        )
    )

    def loss(tokens: Tensor, wanted: Tensor) -> Tensor:
        return F.cross_entropy(model(input_ids=tokens).logits.flatten(0, 1), wanted.flatten())

    return model, loss


def x_gpt(vocab: int, width: int, heads: int, depth: int, length: int, dropout: float) -> tuple[nn.Module, Loss]:
    """x-transformers' decoder, with its flash attention."""
    from x_transformers import Decoder, TransformerWrapper

    model = TransformerWrapper(
        num_tokens=vocab, max_seq_len=length, tie_embedding=True, emb_dropout=dropout,
        attn_layers=Decoder(
            dim=width, depth=depth, heads=heads, attn_dim_head=width // heads, attn_flash=True, attn_dropout=dropout,
            ff_dropout=dropout,
        ),
    )  # fmt: skip

    def loss(tokens: Tensor, wanted: Tensor) -> Tensor:
        return F.cross_entropy(model(tokens).flatten(0, 1), wanted.flatten())

    return model, loss


def hugging_vit(size: int, patch: int, width: int, heads: int, depth: int, classes: int) -> tuple[nn.Module, Loss]:
    """Hugging Face's ViT."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        image_size=size, patch_size=patch, hidden_size=width, num_hidden_layers=depth, num_attention_heads=heads,
        intermediate_size=4 * width, num_labels=classes, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = ViTForImageClassification(config)
    return model, lambda pictures, wanted: F.cross_entropy(model(pictures).logits, wanted)


def torch_vit(size: int, patch: int, width: int, heads: int, depth: int, classes: int) -> tuple[nn.Module, Loss]:
    """nn.TransformerEncoder over patches."""
    layer = nn.TransformerEncoderLayer(
        width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )  # fmt: skip
    model = nn.ModuleDict(
        {
            "patches": nn.Conv2d(3, width, patch, patch),
            "encoder": nn.TransformerEncoder(layer, depth, nn.LayerNorm(width), enable_nested_tensor=False),
            "classes": nn.Linear(width, classes),
        }
    )
    token, places = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(
        torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02
    )  # fmt: skip
    model.register_parameter("token", token)
    model.register_parameter("places", places)

    def loss(pictures: Tensor, wanted: Tensor) -> Tensor:
        x = model["patches"](pictures).flatten(2).transpose(1, 2)
        x = torch.cat([token.expand(len(x), -1, -1), x], dim=1) + places
        return F.cross_entropy(model["classes"](model["encoder"](x)[:, 0]), wanted)

    return model, loss


def stepwise_luong(model: Seq2Seq) -> Loss:
    """Luong's decoder, one step after the other, as most tutorials write it; the same weights, and logits all at once."""
    decoder = model.decoder
    score = decoder.attention.score.weight[0]

    def loss(source: Tensor, lengths: Tensor, target: Tensor, wanted: Tensor) -> Tensor:
        memory = model.encode(source, lengths)
        hidden = torch.arange(source.shape[1]) >= lengths[:, None]
        keys = memory.states @ score.T
        carried, words, readouts = model.bridge(memory.last), model.dropout(model.target_words(target)), []
        for t in range(target.shape[1]):
            s, carried = decoder.cell.step(words[:, t], carried)
            scores = torch.bmm(keys, s.unsqueeze(2)).squeeze(2).masked_fill(hidden, -torch.inf)
            context = torch.bmm(scores.softmax(-1).unsqueeze(1), memory.states).squeeze(1)
            readouts.append(torch.tanh(decoder.combine(torch.cat([context, s], dim=-1))))
        logits = model.output(model.dropout(torch.stack(readouts, dim=1)))
        return F.cross_entropy(logits.flatten(0, 1), wanted.flatten())

    return loss


def pyg_gat(features: int, dim: int, heads: int, classes: int, dropout: float) -> tuple[nn.Module, Loss]:
    """PyTorch Geometric's two layers of GATConv."""
    from torch_geometric.nn import GATConv

    model = nn.ModuleList(
        [
            GATConv(features, dim, heads, dropout=dropout),
            GATConv(heads * dim, classes, 1, concat=False, dropout=dropout),
        ]
    )

    def loss(nodes: Tensor, edges: Tensor, wanted: Tensor) -> Tensor:
        x = F.dropout(nodes, dropout, model.training)
        x = F.dropout(F.elu(model[0](x, edges)), dropout, model.training)
        return F.cross_entropy(model[1](x, edges), wanted)

    return model, loss


Writer = Callable[[], list[list[int]]]


def marian_writer(vocab: int, width: int, heads: int, hidden: int, depth: int) -> nn.Module:
    """Hugging Face's Marian to decode with: the end is token 0, the padding the last one."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=vocab, d_model=width, encoder_layers=depth, decoder_layers=depth, encoder_ffn_dim=hidden,
        decoder_ffn_dim=hidden, encoder_attention_heads=heads, decoder_attention_heads=heads, activation_function="relu",
        max_position_embeddings=512, scale_embedding=True, eos_token_id=0, pad_token_id=vocab - 1,
        decoder_start_token_id=vocab - 1, bos_token_id=None, forced_eos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    model = MarianMTModel(config).eval()
    model.generation_config.max_length = None
    return model


def marian_call(model: nn.Module, source: Tensor, lengths: Tensor, beam: int, steps: int) -> Writer:
    """`generate` with as many tokens as all write."""
    real = (torch.arange(source.shape[1]) < lengths[:, None]).long()
    settings = {"num_beams": beam, "do_sample": False, "min_new_tokens": steps, "max_new_tokens": steps}

    def call() -> list[list[int]]:
        with torch.inference_mode():
            return model.generate(input_ids=source, attention_mask=real, **settings)[:, 1:].tolist()

    return call


def save_for_ctranslate2(model: nn.Module, folder: str) -> None:
    """Write a Marian in the form that CTranslate2 reads, with numbers for words."""
    from ctranslate2.converters.transformers import MarianMTLoader

    loader, vocab = MarianMTLoader(), model.config.vocab_size
    spec = loader.get_model_spec(model)
    loader.set_vocabulary(spec, ["</s>", "<unk>", *(str(token) for token in range(2, vocab - 1))])
    spec.config.eos_token, spec.config.unk_token, spec.config.decoder_start_token = "</s>", "<unk>", "</s>"
    spec.validate()
    spec.optimize(quantization=None)
    spec.save(folder)


def ctranslate2_call(
    folder: str, source: Tensor, lengths: Tensor, beam: int, steps: int, workers: int, precision: str = "float32"
) -> Writer:
    """CTranslate2 on that many workers of one thread each, which was its best setting."""
    from ctranslate2 import Translator

    threads = torch.get_num_threads()
    translator = Translator(folder, compute_type=precision, inter_threads=workers, intra_threads=1)
    torch.set_num_threads(threads)  # both use one OpenMP, and a translator sets the threads of whoever makes it
    rows = zip(source.tolist(), lengths.tolist(), strict=True)
    texts = [[str(token) for token in row[:length]] for row, length in rows]
    settings = {"beam_size": beam, "min_decoding_length": steps, "max_decoding_length": steps}

    def call() -> list[list[int]]:
        found = translator.translate_batch(texts, max_batch_size=max(1, len(texts) // workers), **settings)
        return [[1 if token == "<unk>" else int(token) for token in one.hypotheses[0]] for one in found]

    return call


def gpt2_writer(vocab: int, width: int, heads: int, depth: int, length: int) -> nn.Module:
    """Hugging Face's GPT-2 to decode with: token 0 begins and ends."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=vocab, n_embd=width, n_layer=depth, n_head=heads, n_positions=length, bos_token_id=0, eos_token_id=0,
        pad_token_id=0, initializer_range=0.2,
    )  # fmt: skip
    model = GPT2LMHeadModel(config).eval()
    model.generation_config.max_length = None
    return model


def llama_writer(vocab: int, width: int, heads: int, groups: int, depth: int, length: int) -> nn.Module:
    """Hugging Face's Llama to decode with: token 0 begins and ends."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocab, hidden_size=width, intermediate_size=8 * width // 3, num_hidden_layers=depth, num_attention_heads=heads,
        num_key_value_heads=groups, max_position_embeddings=length, bos_token_id=0, eos_token_id=0, pad_token_id=0,
        initializer_range=0.2,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    model.generation_config.max_length = None
    return model


def gpt2_call(model: nn.Module, steps: int) -> Writer:
    """`generate` from the first token on."""
    first = torch.zeros(1, 1, dtype=torch.long)

    def call() -> list[list[int]]:
        with torch.inference_mode():
            settings = {"do_sample": False, "min_new_tokens": steps, "max_new_tokens": steps}
            return model.generate(input_ids=first, attention_mask=first + 1, **settings)[:, 1:].tolist()

    return call


def ctranslate2_gpt2(model: nn.Module, folder: str, precision: str) -> Callable[[list[int], int], list[int]]:
    """CTranslate2's continuation of a prompt by a GPT-2, greedily and by one thread."""
    from ctranslate2 import Generator
    from ctranslate2.converters.transformers import GPT2Loader

    loader = GPT2Loader()
    spec = loader.get_model_spec(model)
    loader.set_vocabulary(spec, [str(token) for token in range(model.config.vocab_size)])
    spec.config.bos_token = spec.config.eos_token = spec.config.unk_token = "0"
    spec.validate()
    spec.optimize(quantization=None)
    spec.save(folder)
    threads = torch.get_num_threads()
    generator = Generator(folder, compute_type=precision, inter_threads=1, intra_threads=1)
    torch.set_num_threads(threads)

    def call(prompt: list[int], steps: int) -> list[int]:
        settings = {"max_length": steps, "min_length": steps, "sampling_topk": 1, "include_prompt_in_result": False}
        [found] = generator.generate_batch([[str(token) for token in prompt]], **settings)
        return [int(token) for token in found.sequences[0]]

    return call
