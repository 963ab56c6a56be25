"""Papers that cite each other: the same on every machine, and learned from their neighbors rather than from their words."""

import hashlib

import numpy as np
import pytest
import torch

from mirada.corpora.citations import FAITHFUL, LABELLED, SURVEY, TOPICS, Citations, citations
from mirada.training.baselines import linear_on_features


@pytest.fixture(scope="module")
def data() -> Citations:
    return citations()


def test_it_is_the_same_everywhere(data: Citations) -> None:
    whole = b"".join(np.ascontiguousarray(x).tobytes() for x in (data.features, data.edges.astype("<i8")))
    assert hashlib.blake2b(whole, digest_size=8).hexdigest() == "20216c6bb65819d9"
    assert citations(seed=1).edges.shape != data.edges.shape


def test_sizes_and_parts(data: Citations) -> None:
    assert data.features.shape == (len(data.names), len(data.words))
    assert set(data.features.flatten().tolist()) == {0.0, 1.0}
    assert len(set(data.names)) == len(data.names)
    assert len(set(data.words)) == len(data.words)
    counts = {part: data.parts.count(part) for part in set(data.parts)}
    assert counts == {"train": LABELLED * len(TOPICS), "valid": 300, "test": 1380}
    for topic in TOPICS:
        mine = [part for part, one in zip(data.parts, data.topics, strict=True) if one == topic]
        assert mine.count("train") == LABELLED


def test_edges_lead_both_ways_mostly_to_the_own_topic(data: Citations) -> None:
    pairs = set(map(tuple, data.edges.T.tolist()))
    assert len(pairs) == data.edges.shape[1]
    assert all((b, a) in pairs and a != b for a, b in pairs)
    survey = data.features[:, [data.words.index(word) for word in SURVEY.split()]].any(1)
    topics = np.array(data.topics)
    same = topics[data.edges[0]] == topics[data.edges[1]]
    about_surveys = survey[data.edges].any(0)
    assert abs(same[~about_surveys].mean() - (FAITHFUL + (1 - FAITHFUL) / len(TOPICS))) < 0.03
    assert same[about_surveys].mean() < 0.45, "what surveys cite says little"


def test_words_alone_are_weak(data: Citations) -> None:
    parts, topics = np.array(data.parts), np.array(data.topics)
    train, test = parts == "train", parts == "test"
    x = torch.from_numpy(data.features)
    given = linear_on_features(x[train], topics[train].tolist(), x[test])
    right = float(np.mean(np.array(given) == topics[test]))
    assert 0.35 < right < 0.6
