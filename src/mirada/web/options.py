"""What the server takes and what it refuses: sizes, counts, times, and the ranges of the options of an answer."""

from dataclasses import dataclass

Range = tuple[float, float]

# what an option may be; outside of it an answer would take the server's memory or its time from everybody
RANGES: dict[str, Range] = {
    "beam": (1, 32),
    "best": (1, 32),
    "tokens": (0, 2048),
    "temperature": (0, 100),
    "top_k": (0, 1_000_000),
    "top_p": (0, 1),
    "seed": (0, 2**53),
    "length_penalty": (-10, 10),
    "coverage": (-10, 10),
}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much a request may ask for, and how much waits at once.

    >>> Limits().together
    32
    """

    body: int = 32 << 20  # bytes of a request
    inputs: int = 256  # of a request
    characters: int = 100_000  # of an input, or of a passage
    candidates: int = 1000  # words or labels to be scored
    changes: int = 256  # what-ifs of a request
    pixels: int = 16_000_000  # of a picture that is sent
    sound: float = 600.0  # seconds of a recording that is sent
    together: int = 32  # inputs that are answered in one batch
    queue: int = 1024  # inputs that wait
    memory: int = 512 << 20  # bytes of pictures and recordings that wait
    seconds: float = 60.0  # until a request must be answered
    sending: float = 30.0  # seconds that a client may take to send a request
    connections: int = 512
    stopping: float = 30.0  # seconds that requests have to end when the server is stopped


class Refused(Exception):  # noqa: N818 (a refusal is an answer, not an error of ours)
    """A request that is not answered: the status of HTTP, and why, in plain words.

    >>> Refused(413, "too large").status
    413
    """

    def __init__(self, status: int, why: str, **headers: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
