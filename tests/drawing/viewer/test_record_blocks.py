"""A record in a page is the record again, and a page cannot mistake it for something else."""

import json
from base64 import b64decode
from io import BytesIO

import numpy as np
import pytest

from mirada.drawing.viewer.page import attention_page
from mirada.looking.attn.format import BlobWriter
from tests.drawing.attn_records import Written, softmax, translation
from tests.drawing.conftest import Open
from tests.drawing.parsed import parse


@pytest.mark.parametrize(
    "record", [b"", b"\0", b"<", bytes(100), bytes(range(256)), b"\x1e" * 50, b"\r\n</script><!--" * 9, b"x" * 13]
)
def test_a_page_holds_the_record(record: bytes) -> None:
    blocks = [
        script for script in parse(attention_page([record], "x")).all("script") if "data-record" in script.attributes
    ]
    assert [b64decode(block.text) for block in blocks] == [record]


def test_a_page_reads_its_record(open_page: Open) -> None:
    record = translation()
    page = open_page(record.bytes())
    name = "decoder.layers.2.cross"
    for query in (0, 5, 10):
        np.testing.assert_allclose(page.weights(name, 1, query), record.exact[name][1, query], atol=0.004)
    assert page.errors == []
    broken = open_page(b"no record \0\n\r<")
    assert "not an .attn file" in broken.page.inner_text("[role=alert]")


@pytest.mark.parametrize(("causal", "most"), [(True, 7_000_000), (False, 8_000_000)])
def test_a_page_of_many_noisy_weights_is_small_enough(causal: bool, most: int) -> None:
    """12 x 12 heads x 256 tokens between sharp and even, where the bytes of the weights are as spread as they get."""
    random, record = np.random.default_rng(0), Written()
    record.text("text", [f"word{place}" for place in range(256)])
    hidden = np.triu(np.full((256, 256), -np.inf), 1) if causal else 0.0
    for layer in range(12):
        exact = softmax(1.5 * random.normal(size=(12, 256, 256)) + hidden)
        record.stream(f"layers.{layer}", "self", "text", "text", exact)
    file = BytesIO()
    with BlobWriter(file) as blobs:  # packed as files are
        for blob in record.blobs.values():
            blobs.add([blob])
        blobs.finish(json.dumps(record.manifest()).encode())
    assert len(attention_page([file.getvalue()], "x").encode()) <= most
