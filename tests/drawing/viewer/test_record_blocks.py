"""A record in a page is the record again, and a page cannot mistake it for something else."""

import json
from io import BytesIO

import numpy as np
import pytest

from mirada.drawing.viewer.page import (
    LARGE,
    LEFT_OUT,
    OTHERS,
    attention_page,
    dense_text,
)
from mirada.looking.attn.format import BlobWriter
from tests.drawing.attn_records import Written, softmax, translation
from tests.drawing.conftest import Open
from tests.drawing.parsed import parse


def read_again(text: str, size: int) -> bytes:
    """What page.js does."""
    bits = "".join(
        (f"{ord(LEFT_OUT[(ord(letter) - OTHERS) >> 7]):07b}" if ord(letter) >= OTHERS else "")
        + f"{ord(letter) & 127:07b}"
        for letter in text
    )
    return bytes(int(bits[8 * place : 8 * place + 8], 2) for place in range(size))


@pytest.mark.parametrize(
    "record", [b"", b"\0", b"<", bytes(100), bytes(range(256)), b"\x1e" * 50, b"\r\n</script><!--" * 9, b"x" * 13]
)
def test_dense_text_is_the_record_again(record: bytes) -> None:
    text = dense_text(record)
    assert read_again(text, len(record)) == record
    assert not set(text) & set(LEFT_OUT)
    assert parse(f"<script>{text}</script>").all("script")[0].text == text


def test_dense_text_takes_eight_bytes_for_seven() -> None:
    record = np.random.default_rng(0).integers(0, 256, 2_000_003).astype(np.uint8).tobytes()  # more than one part
    text = dense_text(record)
    assert read_again(text[:7000], 4000) == record[:4000]
    assert read_again(text[-4000:], 1)  # its end is whole
    assert len(text.encode()) <= 8 * len(record) // 7 + 3


def test_a_file_is_dense_where_its_record_is_large() -> None:
    small, large = bytes(LARGE), bytes(LARGE + 1)
    assert attention_page([small], "x", dense_above=LARGE) == attention_page([small], "x")
    assert attention_page([large], "x", dense_above=LARGE) == attention_page([large], "x", dense_above=0)
    assert attention_page([large], "x", dense_above=LARGE) != attention_page([large], "x")


def test_a_page_reads_what_is_dense(open_page: Open) -> None:
    record = translation()
    page = open_page(record.bytes(), dense_above=0)
    name = "decoder.layers.2.cross"
    for query in (0, 5, 10):
        np.testing.assert_allclose(page.weights(name, 1, query), record.exact[name][1, query], atol=0.004)
    assert page.errors == []
    broken = open_page(b"no record \0\n\r<", dense_above=0)
    assert "not an .attn file" in broken.page.inner_text("[role=alert]")


def test_a_page_of_many_noisy_weights_is_small_enough() -> None:
    """12 x 12 heads x 256 tokens between sharp and even, where the bytes of the weights are as spread as they get."""
    random, record = np.random.default_rng(0), Written()
    record.text("text", [f"word{place}" for place in range(256)])
    for layer in range(12):
        exact = softmax(1.5 * random.normal(size=(12, 256, 256)))
        record.stream(f"layers.{layer}", "self", "text", "text", exact)
    file = BytesIO()
    with BlobWriter(file) as blobs:  # packed as files are
        for blob in record.blobs.values():
            blobs.add([blob])
        blobs.finish(json.dumps(record.manifest()).encode())
    assert file.tell() > 5_600_000
    assert len(attention_page([file.getvalue()], "x", dense_above=LARGE).encode()) <= 7_000_000
