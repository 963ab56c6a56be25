"""Models in folders: what was saved is loaded, and everything else is an error of one line."""

import json
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.testing import assert_close

from mirada.attention.neighborhoods import Padding
from mirada.config import Config
from mirada.files import read_json
from mirada.layers.embed import TokenEmbedding
from mirada.layers.model import Model, as_padding, check_step, check_text, real_places, start_small
from mirada.layers.norm import BatchNorm
from mirada.layers.output import Output
from mirada.models.gpt import GPT, GPTConfig

VOCAB, WIDTH = 11, 5


@dataclass(frozen=True, kw_only=True)
class SmallConfig(Config):
    vocab: int = VOCAB
    width: int = WIDTH
    tied: bool = True

    def check(self) -> None:
        self.at_least(1, "vocab", "width")


class Small(Model[SmallConfig]):
    Config = SmallConfig

    def __init__(self, config: SmallConfig) -> None:
        super().__init__(config)
        self.words = TokenEmbedding(config.vocab, config.width)
        self.norm = BatchNorm(config.width)
        self.output = Output(config.width, config.vocab, tied=self.words.weight if config.tied else None)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.output(self.norm(self.words(tokens)))


class Other(Small):
    pass


@pytest.fixture
def tokens() -> Tensor:
    return torch.randint(VOCAB, (2, 7))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Small(SmallConfig()).save(tmp_path / "saved")
    return tmp_path / "saved"


def refusal(folder: str | Path, model: type[Model] = Small) -> str:
    """The one line that an attempt to load answers with."""
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        model.load(folder)
    assert type(refused.value) is ValueError
    message = str(refused.value)
    assert "\n" not in message
    assert refused.value.__cause__ is None
    return message


# Saving and loading


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_is_the_same_after_saving_and_loading(tied: bool, tmp_path: Path, tokens: Tensor) -> None:
    model = Small(SmallConfig(tied=tied))
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    model(tokens)  # the running statistics move
    model.save(tmp_path / "a" / "new" / "folder")
    loaded = Small.load(tmp_path / "a" / "new" / "folder")
    assert loaded.config == model.config
    assert_close(loaded(tokens), model.eval()(tokens), rtol=0, atol=0)
    assert_close(dict(loaded.state_dict()), dict(model.state_dict()), rtol=0, atol=0)


def test_tied_weights_are_saved_once_and_stay_tied(folder: Path) -> None:
    stored = load_file(folder / "model.safetensors")
    assert sum(x.shape == (VOCAB, WIDTH) for x in stored.values()) == 1
    loaded = Small.load(folder)
    assert loaded.output.weight is loaded.words.weight


def test_a_loaded_model_is_in_evaluation(folder: Path, tokens: Tensor) -> None:
    loaded = Small.load(folder)
    assert not any(module.training for module in loaded.modules())
    assert_close(loaded(tokens), loaded(tokens), rtol=0, atol=0)
    assert all(parameter.requires_grad for parameter in loaded.parameters())


def test_the_folder_holds_plain_json(folder: Path) -> None:
    described = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert described == {"model": "small", "config": {"vocab": 11, "width": 5, "tied": True}}
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]


def test_a_folder_may_be_saved_to_again_and_named_by_text(folder: Path, tokens: Tensor) -> None:
    model = Small(SmallConfig()).eval()
    model.save(str(folder))
    assert_close(Small.load(str(folder))(tokens), model(tokens), rtol=0, atol=0)


def test_fields_that_a_folder_does_not_name_keep_their_defaults(folder: Path) -> None:
    (folder / "config.json").write_text('{"model": "small", "config": {"tied": true}}')
    assert Small.load(folder).config == SmallConfig()


# What cannot be loaded


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    message = refusal(tmp_path / "nowhere")
    assert message == f"{tmp_path / 'nowhere' / 'config.json'} cannot be read. Is this the folder of a saved model?"


def test_a_file_in_place_of_a_folder(folder: Path) -> None:
    assert "cannot be read" in refusal(folder / "config.json")


def test_a_folder_in_place_of_a_file(folder: Path) -> None:
    (folder / "config.json").unlink()
    (folder / "config.json").mkdir()
    assert "cannot be read" in refusal(folder)


@pytest.mark.parametrize("text", ["", "{", '{"model": "small",}', "model: small", '{"model": "small"', b"\xff\xfe{}"])
def test_a_configuration_that_is_not_json(text: str | bytes, folder: Path) -> None:
    (folder / "config.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert f"{folder / 'config.json'} is not JSON: " in refusal(folder)


@pytest.mark.parametrize(("text", "kind"), [("[]", "list"), ("5", "int"), ('"small"', "str"), ("null", "NoneType")])
def test_a_configuration_that_is_no_object(text: str, kind: str, folder: Path) -> None:
    (folder / "config.json").write_text(text)
    assert refusal(folder) == f"{folder / 'config.json'} must hold a JSON object: got {kind}"


def test_the_configuration_of_another_model(folder: Path) -> None:
    assert refusal(folder, Other) == f"{folder} holds a model 'small': load it with that class, not Other"
    for text in ("{}", '{"model": null}', '{"model": ["small"]}', '{"model": "gpt", "config": {}}'):
        (folder / "config.json").write_text(text)
        assert "holds a model " in refusal(folder)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"widht": 5}, "unknown field of SmallConfig 'widht'; known: tied, vocab, width. Did you mean 'width'?"),
        ({"width": "5"}, "SmallConfig: width must be of type int: got '5'"),
        ({"width": 0}, "SmallConfig: width must be at least 1: got 0"),
        ({"tied": 1}, "SmallConfig: tied must be of type bool: got 1"),
    ],
)
def test_fields_that_do_not_fit(config: dict[str, object], message: str, folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"model": "small", "config": config}))
    assert message in refusal(folder)


@pytest.mark.parametrize("config", [5, None, [], [1], "width", True], ids=repr)
def test_fields_that_are_no_object(config: object, folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"model": "small", "config": config}))
    assert "must hold the fields of the model under 'config'" in refusal(folder)


@pytest.mark.parametrize("kept", [0, 4, 20, 100, -4])
def test_weights_that_were_cut_off(kept: int, folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:kept])
    assert f"{weights} does not hold the weights of {folder / 'config.json'}: " in refusal(folder)


def test_weights_that_are_something_else(folder: Path) -> None:
    (folder / "model.safetensors").write_text("these are no weights, though long enough for a header")
    assert "does not hold the weights" in refusal(folder)


def test_weights_that_are_not_there(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.unlink()
    assert "No such file or directory" in refusal(folder)
    weights.mkdir()
    assert "does not hold the weights" in refusal(folder)


def change(edit: Callable[[dict[str, Tensor]], dict[str, Tensor]], folder: Path) -> None:
    path = folder / "model.safetensors"
    save_file(edit(load_file(path)), path)


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda stored: {name: x for name, x in stored.items() if name != "norm.bias"}, "norm.bias"),
        (lambda stored: stored | {"extra.bias": torch.zeros(3)}, "extra.bias"),
        (lambda stored: stored | {"norm.bias": torch.zeros(3)}, "norm.bias"),
        (lambda stored: {}, "norm.bias"),
    ],
    ids=["missing", "more", "of another size", "none"],
)
def test_weights_of_another_configuration_are_named(edit: Callable, named: str, folder: Path) -> None:
    change(edit, folder)
    assert named in refusal(folder)


def test_a_width_that_is_not_that_of_the_weights(folder: Path) -> None:
    (folder / "config.json").write_text('{"model": "small", "config": {"width": 7}}')
    message = refusal(folder)
    assert "does not hold the weights" in message
    assert "(11, 7): got torch.float32 (11, 5)" in message


def test_a_model_takes_its_own_configuration() -> None:
    with pytest.raises(ValueError, match="Small takes a SmallConfig: got Config"):
        Small(Config())
    with pytest.raises(ValueError, match="Small takes a SmallConfig: got dict"):
        Small({"width": 5})


def test_reading_json(tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    path.write_text('{"größe": 5}', encoding="utf-8")
    assert read_json(path) == {"größe": 5}


# Lengths


def test_lengths_are_a_padding() -> None:
    lengths = torch.tensor([7, 2, 0])
    padding = as_padding(lengths, 3, 7)
    assert isinstance(padding, Padding)
    lengths.zero_()  # it belongs to who called
    assert padding.lengths.tolist() == [7, 2, 0]
    assert as_padding(torch.tensor([2, 2, 2]), 3, 7) is not None


def test_without_padding_there_is_none() -> None:
    assert as_padding(None, 3, 7) is None
    assert as_padding(torch.tensor([7, 7, 7]), 3, 7) is None


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (torch.tensor([7, 8, 1]), "lengths must be at most the length of the batch: got lengths up to 8, length=7"),
        (torch.tensor([8, 8, 8]), "lengths must be at most the length of the batch: got lengths up to 8, length=7"),
        (torch.tensor([7, 2]), "lengths must have one number per sample: got 2 for batch=3"),
        (torch.tensor([7, 7]), "lengths must have one number per sample: got 2 for batch=3"),
        (torch.tensor([7]), "lengths must have one number per sample: got 1 for batch=3"),
        (torch.tensor([[7, 2, 1]]), r"lengths must have the axes \(batch\): got shape \(1, 3\)"),
        (torch.tensor([7, 2, -1]), "padding lengths must be at least 0: got -1"),
        (torch.tensor([7.0, 2.0, 1.0]), "padding lengths must hold integers: got torch.float32"),
        ([7, 2, 1], r"lengths must be a tensor with the axes \(batch\): got list"),
    ],
    ids=str,
)
def test_lengths_that_do_not_fit_are_refused(lengths: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_padding(lengths, 3, 7)


def test_real_places_are_those_before_the_length() -> None:
    real = real_places(Padding([3, 0, 5]), 5)
    assert real.dtype == torch.bool
    assert real.int().tolist() == [[1, 1, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]]
    assert real_places(None, 5) is None


def test_real_places_are_those_that_a_padding_shows() -> None:
    padding = Padding([3, 0, 5])
    assert_close(real_places(padding, 7), padding.dense(1, 7)[:, 0, 0])


# Starting


def test_linear_layers_start_small() -> None:
    model = nn.Sequential(nn.Linear(101, 103), nn.LayerNorm(103))
    bias = model[0].bias.detach().clone()
    model.apply(start_small)
    # 10403 normal numbers: within five standard deviations of 0.7 %
    assert_close(model[0].weight.std().item(), 0.02, rtol=0.035, atol=0)
    assert_close(model[0].bias.detach(), bias, rtol=0, atol=0)
    assert_close(model[1].weight.detach(), torch.ones(103), rtol=0, atol=0)


def test_tokens_and_segments_are_integers() -> None:
    whole, real = torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 3)
    check_text(whole, whole.int())
    with pytest.raises(ValueError, match=r"tokens must hold integers: got torch\.float32"):
        check_text(real, whole)
    with pytest.raises(ValueError, match=r"segments must hold integers: got torch\.float32"):
        check_text(whole, real)
    check_step(whole[0], 3)
    with pytest.raises(ValueError, match=r"tokens must hold integers: got torch\.float32"):
        check_step(real[0], 3)


def test_saving_writes_through_no_link_and_leaves_nothing_beside(tmp_path: Path) -> None:
    precious, folder = tmp_path / "precious", tmp_path / "saved"
    precious.write_text("precious")
    folder.mkdir()
    for name in ("model.safetensors", "config.json"):
        (folder / name).symlink_to(precious)
    Small(SmallConfig()).save(folder)
    assert precious.read_text() == "precious"
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    assert not any(path.is_symlink() for path in folder.iterdir())
    Small.load(folder)


def test_a_save_that_is_stopped_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Small(SmallConfig()).save(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()

    def stopped(model: nn.Module, path: str) -> None:
        Path(path).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("mirada.layers.model.save_model", stopped)
    with pytest.raises(KeyboardInterrupt):
        Small(SmallConfig()).save(tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


def test_json_is_counted_before_it_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    path.write_text('{"a": [' + "1," * 5_000_001 + "1]}")
    with pytest.raises(ValueError, match=r"some\.json is not JSON: more than 5,000,000 values"):
        read_json(path)


@pytest.mark.parametrize(
    ("count", "reason"), [(100_001, "at most 100,000 are read"), (50_000, "that the model has not")]
)
def test_thousands_of_names_in_the_header_are_refused_at_once(tmp_path: Path, count: int, reason: str) -> None:
    model = GPT(GPTConfig.tiny())
    model.save(tmp_path)
    entry = '{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    header = ("{" + ",".join(f'"a{number}":{entry}' for number in range(count)) + "}").encode()
    header += b" " * (-len(header) % 8)
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    began = time.process_time()
    with pytest.raises(ValueError, match=reason):
        GPT.load(tmp_path)
    assert time.process_time() - began < 6  # 1.8 beside other work
