"""Mutants of folders of Hugging Face: imported, they are refused in a line, or compute what transformers computes from them."""

import json
import logging
import random
import shutil
import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.campaign.figures import Figures
from tests.campaign.folders import MUTATIONS
from tests.campaign.folders import edit as edit_of_a_run
from tests.campaign.forked import forked

FAMILIES = {  # and the class of transformers that loads them
    **dict.fromkeys(("gpt2", "llama", "qwen2", "mistral", "opt", "phi3"), "AutoModelForCausalLM"),
    **dict.fromkeys(("bart", "t5"), "AutoModelForSeq2SeqLM"),
    **dict.fromkeys(("bert", "roberta"), "AutoModelForMaskedLM"),
}
IDS = [[2, 5, 6, 7, 8, 3], [2, 9, 4, 3, 10, 11]]
VALUES: tuple[Any, ...] = (
    None, -1, 0, 1, 2, 3, 7, 16, 10**9, 10**30, 2**64, 0.5, 1e308, -0.0, True, False, "", "x", "gelu", "relu", "\x1b[2J",
    "../../etc/passwd", [], {}, [1], {"a": 1}, "relu" * 10_000,
)  # fmt: skip
DIFFERENT = 1e-3  # between logits
Mutation = Callable[[random.Random, Path], None]


def setting(dice: random.Random, folder: Path) -> None:
    """Another value in config.json or in another file of JSON, or a key that is missing."""
    path = dice.choice([path for path in sorted(folder.glob("*.json")) if path.name != "tokenizer.json"])
    described = json.loads(path.read_text())
    inside = described
    parts = [value for value in described.values() if isinstance(value, dict) and value]
    if parts and dice.random() < 0.3:
        inside = dice.choice(parts)
    key = dice.choice(sorted(inside))
    if dice.random() < 0.2:
        del inside[key]
    else:
        inside[key] = dice.choice(VALUES)
    path.write_text(json.dumps(described))


def added(dice: random.Random, folder: Path) -> None:
    """A setting that was not there: what changes what is computed must not be overlooked."""
    path = folder / "config.json"
    described = json.loads(path.read_text())
    described[dice.choice(MORE)] = dice.choice(VALUES)
    path.write_text(json.dumps(described))


MORE = (
    "auto_map", "quantization_config", "rope_scaling", "head_dim", "sliding_window", "attention_bias", "mlp_bias", "n_inner",
    "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention", "normalize_before", "layer_types",
    "feed_forward_proj", "is_decoder", "tie_word_embeddings", "use_sliding_window", "partial_rotary_factor", "pruned_heads",
    "num_decoder_layers", "scale_embedding", "model_type", "architectures", "id2label", "num_labels", "rope_parameters",
)  # fmt: skip


def header(dice: random.Random, folder: Path) -> None:
    """A header of safetensors that lies about a tensor."""
    path = dice.choice(sorted(folder.glob("*.safetensors")))
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    described = json.loads(content[8 : 8 + length])
    name = dice.choice([name for name in described if name != "__metadata__"])
    one = described[name]
    change = dice.randrange(6)
    if change == 0:
        one["shape"] = dice.choice(([], [0], [2**62, 4], one["shape"][::-1], [*one["shape"], 1], [-1]))
    elif change == 1:
        one["dtype"] = dice.choice(("F16", "F64", "I32", "BF16", "F8_E4M3", "X9", 3))
    elif change == 2:
        one["data_offsets"] = dice.choice(([0, 4], [0, 2**63], [-4, 4], one["data_offsets"][::-1], []))
    elif change == 3:
        described[dice.choice(("more", "../x", "", name + ".0"))] = described.pop(name)
    elif change == 4:
        described["twice"] = dict(one)
    text = json.dumps(described).encode()
    said = dice.choice((len(text), len(text), len(text), 0, 2**63, len(text) + 9)) if change == 5 else len(text)
    path.write_bytes(struct.pack("<Q", said) + text + content[8 + length :])


def index(dice: random.Random, folder: Path) -> None:
    """An index in place of the one file, which names files elsewhere, itself, or the wrong ones."""
    whole = folder / "model.safetensors"
    content = whole.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    names = [name for name in json.loads(content[8 : 8 + length]) if name != "__metadata__"]
    whole.rename(folder / "part-1.safetensors")
    files: dict[str, Any] = dict.fromkeys(names, "part-1.safetensors")
    odd: tuple[Any, ...] = (
        "part-1.safetensors", "model.safetensors.index.json", "../secret.safetensors", "/etc/passwd", "part-2.safetensors",
        "pytorch_model.bin", "", None, 7, ["part-1.safetensors"], "part-1.safetensors/", "./part-1.safetensors",
    )  # fmt: skip
    files[dice.choice([*names, "more"])] = dice.choice(odd)
    if dice.random() < 0.2:
        files.pop(dice.choice(sorted(files)))
    described: Any = dice.choice(
        ({"weight_map": files}, {"weight_map": files}, {"weight_map": files}, {}, {"weight_map": []})
    )
    (folder / "model.safetensors.index.json").write_text(json.dumps(described))


def any_file(dice: random.Random, folder: Path) -> None:
    """One of the mutations of files, of any file of the folder."""
    mutation = dice.choice([mutation for mutation in MUTATIONS if mutation is not edit_of_a_run])
    mutation(dice, dice.choice(sorted(path for path in folder.iterdir() if path.is_file())))


KINDS: tuple[Mutation, ...] = (setting, setting, added, header, index, any_file, any_file)


def one(seed: int, home: Path, figures: Figures) -> None:
    """One mutant: nothing half-written stays, and what is computed from it is what transformers computes."""
    dice = random.Random(seed)
    name = list(FAMILIES)[seed % len(FAMILIES)]
    whole = made(name, home)
    folder, out = home / "mutant", home / "mutant-run"
    for place in (folder, out):
        shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(whole, folder)
    mutation = dice.choice(KINDS)
    mutation(dice, folder)
    before = set(home.iterdir())
    outcome = forked(lambda: imported(folder, out, whole, FAMILIES[name]))
    left = set(home.iterdir()) - before - {out}
    kind = f"{name}: {mutation.__name__}"
    if outcome.kind in ("traceback", "hang", "memory"):
        figures.add(kind, outcome.kind, [seed, outcome.value, round(outcome.seconds, 1), outcome.memory])
    elif left or (outcome.kind == "refused" and not imported_whole(out)):
        figures.add(kind, "half written", [seed, sorted(map(str, left)), outcome.value])
    elif outcome.kind == "refused" and "\n" in str(outcome.value):
        figures.add(kind, "more than a line", [seed, outcome.value])
    elif outcome.kind == "done" and outcome.value not in ("as theirs", "as before"):
        figures.add(kind, "silently different", [seed, outcome.value])
    else:
        figures.add(kind, "refused" if outcome.kind == "refused" else "the same as in transformers")


def imported_whole(out: Path) -> bool:
    """Whether a run is there with all its files, or none at all: what cannot answer is refused later, when it is used."""
    return not out.exists() or (out / "config.json").exists()


def made(name: str, home: Path) -> Path:
    """A folder that is whole."""
    from tests.hub.tiny import write_folder

    whole = home / f"whole-{name}"
    if not whole.exists():
        quiet()
        write_folder(whole, name)
    return whole


def quiet() -> None:
    """Nothing that transformers says matters here."""
    import transformers

    transformers.logging.set_verbosity(logging.CRITICAL)
    transformers.utils.logging.disable_progress_bar()
    warnings.simplefilter("ignore")


def imported(folder: Path, out: Path, whole: Path, kind: str) -> str:
    """Import a mutant, ask it, and compare its logits with those of transformers from the same folder, or from the whole one."""
    import torch

    import mirada

    torch.set_num_threads(1)
    run = mirada.import_model(folder, out)
    run("the ___ house" if kind == "AutoModelForMaskedLM" else "the red house")
    ours = logits(run.model, kind)
    for place, word in ((folder, "as theirs"), (whole, "as before")):
        theirs = their_logits(place, kind)
        if (
            theirs is not None
            and theirs.shape == ours.shape
            and torch.allclose(theirs, ours, DIFFERENT, DIFFERENT, True)
        ):
            return word
    return f"other logits: {json.loads((folder / 'config.json').read_text())}"[:400]


def logits(model: Any, kind: str) -> Any:
    """Of ours."""
    import torch

    with torch.inference_mode():
        ids = torch.tensor(IDS)
        return model(ids, torch.tensor([len(row) for row in IDS]), ids) if "Seq2Seq" in kind else model(ids)


def their_logits(folder: Path, kind: str) -> Any:
    """Of theirs; None where transformers does not load the folder."""
    import torch
    import transformers

    quiet()
    ids = torch.tensor(IDS)
    try:
        model = (
            getattr(transformers, kind)
            .from_pretrained(folder, dtype=torch.float32, local_files_only=True, trust_remote_code=False)
            .eval()
        )
        with torch.inference_mode():
            return model(input_ids=ids, **({"decoder_input_ids": ids} if "Seq2Seq" in kind else {})).logits
    except Exception:
        return None
