"""Papers that cite each other: the topic of a paper shows in its citations more than in its own words."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from mirada.data.batching import drawn

TOPICS = {
    "databases": "query index join transaction schema relational storage log concurrency recovery table key view cache "
    "partition replica consistency lock optimizer warehouse",
    "language": "word sentence grammar parser corpus translation token syntax semantics dialogue speech lexicon morphology "
    "summary tagging discourse phrase verb spelling alignment",
    "networks": "packet router protocol bandwidth latency congestion wireless link topology throughput routing channel "
    "antenna switch traffic firewall broadcast spectrum relay jitter",
    "robotics": "robot arm sensor gripper motion trajectory actuator joint torque navigation obstacle grasp leg balance "
    "odometry controller drone wheel manipulation localization",
    "theory": "proof bound complexity theorem lemma reduction oracle automaton graph combinatorial hardness randomized "
    "approximation decidable polynomial circuit logic conjecture matroid coloring",
    "vision": "image pixel camera edge texture segmentation object face depth stereo contour tracking scene color shape "
    "optical recognition video motionblur photometric",
}
GENERAL = (
    "method result data model system problem approach performance experiment analysis study new based large time error rate "
    "function set structure search learning network algorithm test measure space local global order input output number value "
    "process design efficient general simple known"
)
SURVEY = "survey overview taxonomy trends"
PAPERS = 1800
SURVEYS = 0.08  # share of papers about all topics: their citations say little
WORDS = 12  # of a paper, approximately
OWN = 0.2  # share of its words that belong to its topic; as many come from any topic
CITED, FAITHFUL = 3, 0.78  # papers that a paper cites, and the share of them on its own topic
LABELLED, VALID = 20, 300  # training papers of each topic; validation papers of all topics; the others are the test set


Share = Callable[[int], NDArray[np.float64]]  # draws so many numbers in [0, 1)


@dataclass(frozen=True, eq=False)
class Citations:
    """Papers p1, p2, ... with their topics, the words in them (0 or 1), their citations, and the split of each."""

    names: tuple[str, ...]
    topics: tuple[str, ...]
    words: tuple[str, ...]
    features: NDArray[np.float32]
    edges: NDArray[np.int64]
    parts: tuple[str, ...]


def citations(seed: int = 0, isolated: float = 0.0) -> Citations:
    """A block model: papers of six topics that cite mostly papers of their own, and a few surveys that cite everything.

    Args:
        seed: Another seed, other papers.
        isolated: The share of papers that cite nothing and are not cited.

    >>> data = citations()
    >>> len(data.names), len(data.words), data.edges.shape[0]
    (1800, 164, 2)
    >>> data.names[0], data.topics[0], data.parts[0]
    ('p1', 'databases', 'train')
    """
    names, words = list(TOPICS), " ".join((*TOPICS.values(), GENERAL, SURVEY)).split()
    calls = count(1)

    def share(size: int) -> NDArray[np.float64]:
        """Random numbers in [0, 1), the same on every machine."""
        return (drawn(size, seed, 14, next(calls)) >> np.uint64(11)) / 2.0**53

    topic = (share(PAPERS) * len(names)).astype(np.int64)
    survey = share(PAPERS) < SURVEYS
    features = _word_table(share, topic, survey, words)
    edges = _cited(share, topic, survey)
    if isolated:
        alone = share(PAPERS) < isolated
        edges = edges[:, ~alone[edges].any(0)]
    order, parts, others = np.argsort(share(PAPERS), kind="stable"), [""] * PAPERS, 0
    labelled = [0] * len(TOPICS)
    for number in order.tolist():
        labelled[topic[number]] += 1
        if labelled[topic[number]] <= LABELLED:
            parts[number] = "train"
        else:
            parts[number] = "valid" if others < VALID else "test"
            others += 1
    return Citations(
        tuple(f"p{number}" for number in range(1, PAPERS + 1)), tuple(names[t] for t in topic), tuple(words), features,
        np.unique(np.concatenate([edges, edges[::-1]], axis=1), axis=1), tuple(parts),
    )  # fmt: skip


def _word_table(share: Share, topic: NDArray, survey: NDArray, words: list[str]) -> NDArray[np.float32]:
    """Which words are in which paper: some of its topic, as many of any topic, and the others of no topic."""
    places = {word: place for place, word in enumerate(words)}
    by_topic = [np.array([places[word] for word in text.split()]) for text in TOPICS.values()]
    general = np.array([places[word] for word in GENERAL.split()])
    topical = [places[word] for word in SURVEY.split()]
    table = np.zeros((PAPERS, len(words)), np.float32)
    for number in range(PAPERS):
        kind, which, other = (share(WORDS) for _ in range(3))
        for k, w, o in zip(kind, which, other, strict=True):
            group = by_topic[topic[number]] if k < OWN else by_topic[int(o * len(by_topic))] if k < 3 * OWN else general
            table[number, group[int(w * len(group))]] = 1
        if survey[number]:
            table[number, topical] = share(len(topical)) < 0.7
    return table


def _cited(share: Share, topic: NDArray, survey: NDArray) -> NDArray[np.int64]:
    """Sources and targets of the citations; a survey cites four times as many papers, of any topic."""
    groups = [np.flatnonzero(topic == t) for t in range(len(TOPICS))]
    edges = []
    for number in range(PAPERS):
        cited = CITED * (4 if survey[number] else 1)
        faithful, which = share(cited), share(cited)
        for f, w in zip(faithful, which, strict=True):
            group = groups[topic[number]] if f < FAITHFUL and not survey[number] else np.arange(PAPERS)
            other = int(group[int(w * len(group))])
            if other != number:
                edges.append((number, other))
    return np.array(edges, dtype=np.int64).T
