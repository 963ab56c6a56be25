"""Checkpoints of Hugging Face as ordinary runs, and back: every family that is there, the whole way."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close

import mirada
from mirada.hub.families import family
from mirada.layers import weights as in_files
from mirada.runs.exporting import export_run
from mirada.runs.importing import import_folder
from mirada.runs.integrity import inspect
from mirada.runs.registry import CATALOG, entry
from mirada.runs.request import TrainingRequest
from mirada.runs.settings import read_settings
from tests.hub.tiny import ENCODER, MADE, TEXTS, known, their_model, tokenizer, write_folder

transformers = pytest.importorskip("transformers")

WAITING: set[str] = set()  # whose task does not read the facts of a checkpoint yet


def importable() -> list[str]:
    """The families whose task has their model."""
    found = []
    for name in known():
        described = their_model(name).config.to_dict() | {"architectures": [type(their_model(name)).__name__]}
        made = family(described).checkpoint(described, list(their_model(name).state_dict()))
        if made.task in CATALOG and made.preset in entry(made.task).task().presets and name not in WAITING:
            found.append(name)
    return found


every_family = pytest.mark.parametrize("name", importable())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "theirs", "gpt2")


def refusal(folder: Path, **given: Any) -> str:
    """The one line that says why a folder is not imported; nothing is written then."""
    out = folder.parent / "out"
    with pytest.raises(ValueError, match=r".") as caught:
        import_folder(folder, out, **given)
    assert not out.exists()
    assert [path.name for path in folder.parent.iterdir() if path.name.endswith(".part")] == []
    assert "\n" not in str(caught.value)
    return str(caught.value)


def same_tensors(one: torch.nn.Module, other: torch.nn.Module) -> None:
    """All tensors of two models of theirs are the same, to the bit."""
    left, right = one.state_dict(), other.state_dict()
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        assert torch.equal(tensor, right[name]), name


@every_family
def test_there_and_back_gives_identical_tensors(name: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "theirs", name)
    run = mirada.import_model(folder, tmp_path / "run")
    export_run(run, "hf", tmp_path / "back")
    kind = type(their_model(name))
    same_tensors(kind.from_pretrained(tmp_path / "back"), their_model(name))
    described = json.loads((tmp_path / "back" / "config.json").read_text())
    before = json.loads((folder / "config.json").read_text())
    ours = {"dtype", "transformers_version"}
    changed = {
        key: value for key, value in described.items() if key in before and before[key] != value and key not in ours
    }
    assert changed == {}


@every_family
def test_the_whole_folder_is_a_run(name: str, tmp_path: Path) -> None:
    run = mirada.import_model(write_folder(tmp_path / "theirs", name), tmp_path / "run")
    assert all(wrong == "" for _, wrong in inspect(run.folder))
    assert str(run).splitlines()[1:] == ["data     imported", "quality  not measured yet", "training elsewhere"]
    again = mirada.load(run.folder)
    assert again.settings.origin["model_type"] == name
    for one, other in zip(again.model.parameters(), run.model.parameters(), strict=True):
        assert torch.equal(one, other)
    if run.task.input_kind == "text" and run.task.name in ("write", "translate"):
        assert run("the red house").text == again("the red house").text


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_stays_in_the_file_and_comes_back(dtype: torch.dtype, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "theirs", "gpt2", dtype)
    lines: list[str] = []
    import_folder(folder, tmp_path / "run", print_progress=lines.append)
    word = str(dtype).removeprefix("torch.")
    assert lines == [f"the weights are {word}: the file keeps them so, and a run computes with them in float32"]
    assert {tensor.dtype for tensor in load_file(tmp_path / "run" / "model.safetensors").values()} == {dtype}
    run = mirada.load(tmp_path / "run")
    assert {parameter.dtype for parameter in run.model.parameters()} == {torch.float32}
    export_run(run, "hf", tmp_path / "back")
    one, other = (load_file(place / "model.safetensors") for place in (folder, tmp_path / "back"))
    assert {name: tensor.dtype for name, tensor in one.items()} == {
        name: tensor.dtype for name, tensor in other.items()
    }
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


@pytest.mark.parametrize(
    ("kind", "settings"), [("RobertaForMaskedLM", {"tie_word_embeddings": False}), ("ElectraForPreTraining", {})]
)
def test_heads_of_their_own_kind_come_back(kind: str, settings: dict[str, Any], tmp_path: Path) -> None:
    made = getattr(transformers, kind)
    model = made(made.config_class(**ENCODER, **settings))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    model.save_pretrained(tmp_path / "theirs")
    export_run(mirada.import_model(tmp_path / "theirs", tmp_path / "run"), "hf", tmp_path / "back")
    same_tensors(made.from_pretrained(tmp_path / "back"), model)


def test_shards_are_read_by_their_index(folder: Path, tmp_path: Path) -> None:
    write_folder(tmp_path / "sharded", "gpt2", max_shard_size="20KB")
    assert len(list((tmp_path / "sharded").glob("*.safetensors"))) > 1
    one, other = (
        mirada.import_model(place, tmp_path / f"run-{place.name}") for place in (folder, tmp_path / "sharded")
    )
    assert_close(dict(one.model.named_parameters()), dict(other.model.named_parameters()), atol=0, rtol=0)


def test_large_weights_are_mapped(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_files, "MAPPED_FROM", 0)
    run = mirada.import_model(folder, tmp_path / "run")
    maps = Path("/proc/self/maps")
    if maps.exists():
        assert str(tmp_path / "run" / "model.safetensors") in maps.read_text()
    with torch.no_grad():
        wanted = their_model("gpt2")(torch.tensor([[2, 5, 6, 7]])).logits
        assert_close(run.model(torch.tensor([[2, 5, 6, 7]])), wanted, atol=1e-5, rtol=1e-5)
        next(run.model.parameters()).zero_()  # a copy of the page: the file stays as it is
    assert all(wrong == "" for _, wrong in inspect(run.folder))


def test_nothing_can_be_resumed_and_data_must_be_given(folder: Path, tmp_path: Path) -> None:
    run = mirada.import_model(folder, tmp_path / "run")
    request = TrainingRequest(task="write", out=str(tmp_path / "run"), resume=True)
    with pytest.raises(ValueError, match=r"was imported, not trained: nothing can be resumed.*--from"):
        request.settings(request.folder())
    with pytest.raises(ValueError, match=r"this run was imported, and its data is not here.*--data FILE"):
        run.measure()
    (tmp_path / "more.txt").write_text("the red house.\nthe red car is good\n" * 40)
    assert run.measure(str(tmp_path / "more.txt"))["perplexity"] > 1


def test_a_damaged_file_of_theirs_is_found(folder: Path, tmp_path: Path) -> None:
    import_folder(folder, tmp_path / "run")
    path = tmp_path / "run" / "origin" / "config.json"
    path.write_text(path.read_text().replace("gpt2", "gpt3"))
    assert dict(inspect(tmp_path / "run"))["origin/config.json"] == "not as it was written"
    with pytest.raises(ValueError, match="is missing or damaged: it is not what this run was imported with"):
        mirada.load(tmp_path / "run")


def test_what_stays_of_the_settings(folder: Path, tmp_path: Path) -> None:
    import_folder(folder, tmp_path / "run")
    settings = read_settings(tmp_path / "run")
    assert settings.source.imported
    assert settings.source.described == "imported"
    assert settings.origin["architecture"] == "GPT2LMHeadModel"
    assert read_settings(tmp_path / "run").to_bytes() == (tmp_path / "run" / "config.json").read_bytes()


# What is refused, before anything is written.


def change(folder: Path, **settings: Any) -> None:
    """Change settings of config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def test_wrong_places(folder: Path, tmp_path: Path) -> None:
    assert "is a .json file: give the folder with config.json" in refusal(folder / "config.json")
    assert "holds weights only" in refusal(folder / "model.safetensors")
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "mine.txt").write_text("x")
    for place, message in (
        (tmp_path / "used", "not empty"),
        (folder / "run", "lies in the folder"),
        (folder, "not empty"),
    ):
        with pytest.raises(ValueError, match=message):
            import_folder(folder, place)
    assert (tmp_path / "used" / "mine.txt").read_text() == "x"
    run = import_folder(folder, tmp_path / "run")
    assert "is the folder of a run of mirada already" in refusal(run)


def test_wrong_weights(folder: Path) -> None:
    from safetensors.torch import save_file

    tensors = load_file(folder / "model.safetensors")
    first = "transformer.h.0.ln_1.weight"
    save_file({name: tensor for name, tensor in tensors.items() if name != first}, folder / "model.safetensors")
    assert "Missing: h.0.ln_1.weight" in refusal(folder)
    save_file(tensors | {"more": torch.ones(2)}, folder / "model.safetensors")
    assert "Left over: more" in refusal(folder)
    save_file(tensors | {first: torch.ones(3)}, folder / "model.safetensors")
    assert f"{first} must fill decoder.layers.0.around_self.norm.weight" in refusal(folder)
    save_file(tensors | {first: torch.ones(16, dtype=torch.int8)}, folder / "model.safetensors")
    assert "must hold floating-point numbers" in refusal(folder)
    save_file(tensors | {first: torch.ones(16).to(torch.float8_e4m3fn)}, folder / "model.safetensors")
    assert "import takes float32, float16" in refusal(folder)


def test_wrong_settings(folder: Path) -> None:
    kept = (folder / "config.json").read_text()
    for settings, message in (
        ({"model_type": "gtp2"}, "unknown model_type 'gtp2'; known: "),
        ({"model_type": None}, "config.json must have a model_type"),
        ({"n_layer": 10**9}, "asks for n_layer=1000000000: no checkpoint has so many layers"),
        ({"n_layer": 900, "n_embd": 100_000}, "that is far larger than the"),
        ({"n_embd": "many"}, "width must be of type int"),
        ({"quantization_config": {"quant_method": "gptq"}}, "the weights are quantized (gptq)"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx must be False"),
    ):
        change(folder, **settings)
        assert message in refusal(folder)
        (folder / "config.json").write_text(kept)
    assert "Did you mean 'gpt2'?" in (change(folder, model_type="gtp2"), refusal(folder))[1]
    (folder / "config.json").write_text("[1]")
    assert "must hold a JSON object" in refusal(folder)
    (folder / "config.json").unlink()
    assert "has no config.json" in refusal(folder)


def test_a_tokenizer_that_does_not_fit(folder: Path) -> None:
    from mirada.data.text.tokenize import Tokenizer

    letters = [chr(number) for number in range(0x4E00, 0x4E80)]
    Tokenizer.train(["".join(letters)], kind="char", vocab=200).save(folder / "tokenizer.json")
    assert "the tokenizer has 133 tokens, and the model has a vocabulary of 54" in refusal(folder)
    (folder / "tokenizer.json").write_text('{"version": "1.0"')
    assert "tokenizer" in refusal(folder)


def test_another_task_needs_a_head_of_its_own(folder: Path) -> None:
    assert "is a checkpoint for write, not for classify" in refusal(folder, task="classify")
    assert "unknown task 'wirte'" in refusal(folder, task="wirte")


def test_code_of_the_folder_is_never_run(folder: Path, tmp_path: Path) -> None:
    (folder / "modeling.py").write_text("raise SystemExit('run')")
    change(folder, auto_map={"AutoModelForCausalLM": "modeling.Model"})
    lines: list[str] = []
    import_folder(folder, tmp_path / "run", print_progress=lines.append)
    assert lines == [
        "the folder names code of its own (auto_map), which is never run: the family's own model is imported"
    ]
    assert not list((tmp_path / "run").rglob("*.py"))


def test_an_interrupted_import_leaves_nothing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mirada.runs.importing.write_tensors", stopped)
    before = set(tmp_path.rglob("*"))
    with pytest.raises(KeyboardInterrupt):
        import_folder(folder, tmp_path / "run")
    assert set(tmp_path.rglob("*")) == before


# The way out, of models that were trained here.


def test_a_model_trained_here_goes_out(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("the red house is good.\nthe red car is not a house.\n" * 60)
    keys = {"steps": 2, "width": 16, "heads": 2, "depth": 1, "position": "learned", "vocab": 60, "threads": 1}
    run = mirada.train("write", str(tmp_path / "text.txt"), out=tmp_path / "run", **keys)
    lines = export_run(run, "hf", tmp_path / "out")
    assert "which transformers loads" in lines[0]
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in (*TEXTS, "the red house is good."):
        ids = run.known.tokenizer.encode(text)
        assert theirs.encode(text, add_special_tokens=False) == ids
        with torch.no_grad():
            assert_close(run.model(torch.tensor([ids])), model(torch.tensor([ids])).logits, atol=1e-5, rtol=1e-5)


def test_what_no_family_has_is_named(tmp_path: Path) -> None:
    rows = [(f"{word} film", kind) for word in ("a", "the", "one", "that", "my") for kind in ("good", "bad")]
    run = mirada.train(
        "classify", rows, out=tmp_path / "run", model="lstm-attention", steps=1, width=16, threads=1, bad="skip"
    )
    with pytest.raises(ValueError, match="no checkpoint of theirs is a Classifier"):
        export_run(run, "hf", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match="unknown format 'hff'"):
        export_run(run, "hff", tmp_path / "out")


def test_a_linked_file_is_not_followed_out_of_the_folder(folder: Path, tmp_path: Path) -> None:
    shutil.move(folder / "tokenizer.json", tmp_path / "secret.json")
    (folder / "tokenizer.json").symlink_to(tmp_path / "secret.json")
    assert "is a link out of the folder, which is not followed" in refusal(folder)


def test_every_family_has_a_tiny_folder_here() -> None:
    assert set(known()) <= set(MADE)
    assert tokenizer().get_vocab_size() <= smallest_vocabulary(MADE)


def smallest_vocabulary(made: dict[str, Any]) -> int:
    """The smallest vocabulary of the tiny models."""
    return min(sizes["vocab_size"] for _, _, sizes in made.values() if "vocab_size" in sizes)
