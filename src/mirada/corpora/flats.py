"""Flats and their rents: a table in which columns count together, so that no sum over columns explains it."""

import numpy as np

from mirada.data.batching import drawn

NAMES = ("size", "rooms", "floor", "year", "district", "lift", "heating", "rent")
DISTRICTS = {
    "center": 21.0,
    "harbor": 17.5,
    "university": 16.0,
    "garden": 13.0,
    "station": 10.5,
}  # rent per square meter
HEATINGS = ("gas", "electric", "district heating")
TRAIN, VALID, TEST = 3000, 300, 300
NOISE = 0.04  # share of a rent


def flats(count: int = TRAIN + VALID + TEST, seed: int = 0) -> list[tuple[str, ...]]:
    """Rows of cells in the order of `NAMES`; the last is the rent.

    rent = size x rent per square meter of the district x age x floor x noise

    High floors are worth more with a lift and less without one; old houses cost more in the center and less elsewhere.

    >>> flats(1)
    [('74', '2', '0', '1902', 'station', 'no', 'electric', '597')]
    """
    dice = (drawn(count * 8, seed).reshape(count, 8) >> np.uint64(11)).astype(np.float64) / 2.0**53  # in [0, 1)
    rows = []
    for a, b, c, d, e, f, g, h in dice.tolist():
        size, floor, year = int(25 + 115 * a * a + 10 * b), int(8 * c), int(1900 + 125 * d)
        district, lift = list(DISTRICTS)[int(5 * e)], "yes" if f < 0.5 else "no"
        rooms = max(1, min(6, round(size / 28 + b - 0.5)))
        age = (2025 - year) / 125
        rent = size * DISTRICTS[district] * (1 + (0.15 if district == "center" else -0.25) * age)
        rent *= 1 + (0.03 if lift == "yes" else -0.03) * floor
        rent *= 1 + NOISE * (2 * h - 1)
        cells = (size, rooms, floor, year, district, lift, HEATINGS[int(3 * g)], round(rent))
        rows.append(tuple(map(str, cells)))
    return rows
