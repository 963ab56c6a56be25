"""The times of a series: how they are written, how far apart they are, and what comes next."""

from calendar import monthrange
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Any

from mirada.data.columns.holidays import holidays_in, rules_of

Moment = datetime | float  # a date, or a number that counts steps, seconds, years, ...
DATES = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%d/%m/%y",
    "%m/%d/%y", "%d-%m-%y", "%d.%m.%y", "%Y%m%d", "%Y-%m", "%Y/%m", "%m/%Y", "%b %d, %Y", "%b %d %Y", "%d %b %Y", "%d-%b-%Y",
    "%d-%b-%y",
    "%B %d, %Y", "%B %d %Y", "%d %B %Y", "%b %Y", "%B %Y", "%b-%Y", "%b-%y",
)  # fmt: skip
CLOCKS = ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", " %H:%M:%S.%f", "T%H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
ZONES = ("", "Z", "%z")
PATTERNS = tuple(day + clock + zone for day in DATES for clock in CLOCKS for zone in (ZONES if clock else ("",)))
LENGTHS = range(6, 40)  # of the text of a date
NUMBERS = "numbers"  # times that count
SHARE = 0.8  # of the cells of a column that must be times for the column to hold the times
SAMPLE = 200  # cells that decide how times are written
WEEK = 7  # days that must be seen before weekends can be missed
A_DAY = 86400.0
DIGITS = 6  # after the point of a time that is a number: 1949.083333 is a month
DAYS = {"Y": "YYYY", "y": "YY", "m": "MM", "d": "DD", "b": "Mon", "B": "Month", "H": "hh", "M": "mm", "S": "ss"}
DAYS |= {"I": "hh", "f": "ffffff"}


@dataclass(frozen=True)
class Spacing:
    """How far apart times are: `step` of seconds (kind seconds), months, business days, or of whatever the numbers count.

    Of business days, `holidays` are rules of days that have no row (`holidays.py`).

    >>> Spacing("business days", 1).after(datetime(2012, 8, 17), 2)  # a Friday
    [datetime.datetime(2012, 8, 20, 0, 0), datetime.datetime(2012, 8, 21, 0, 0)]
    >>> Spacing("months", 1).after(datetime(2024, 1, 31), 2), Spacing("numbers", 0.5).after(7.0, 2)
    ([datetime.datetime(2024, 2, 29, 0, 0), datetime.datetime(2024, 3, 31, 0, 0)], [7.5, 8.0])
    >>> Spacing("business days", 1, holidays=("date 12-25",)).after(datetime(2012, 12, 24), 1)
    [datetime.datetime(2012, 12, 26, 0, 0)]
    """

    kind: str
    step: float
    holidays: tuple[str, ...] = ()

    def after(self, last: Moment, count: int) -> list[Moment]:
        """The next times; where the calendar ends before them, an error."""
        if not isinstance(last, datetime):
            return [last + self.step * (n + 1) for n in range(count)]
        try:
            return self._dates_after(last, count)
        except (OverflowError, ValueError):
            raise ValueError(
                f"the times end at {last:%Y-%m-%d}, and there are no dates for the {count:,} rows after it. Is it a mark for "
                "no date? Take that row out."
            ) from None

    def _dates_after(self, last: datetime, count: int) -> list[Moment]:
        if self.kind == "months":
            return [_months_later(last, int(self.step) * (n + 1)) for n in range(count)]
        if self.kind != "business days":
            return [last + timedelta(seconds=self.step * (n + 1)) for n in range(count)]
        days: list[Moment] = []
        while len(days) < count:
            last += timedelta(days=1)
            days += [last] if self.is_business(last) else []
        return days

    def is_business(self, day: date) -> bool:
        """Whether a day is a weekday and no holiday."""
        named = rules_of(date(day.year, day.month, day.day)) if self.holidays else ()
        return day.weekday() < 5 and not any(rule in self.holidays for rule in named)

    def text(self) -> str:
        """The spacing in words.

        >>> Spacing("seconds", 3600).text(), Spacing("months", 3).text(), Spacing("business days", 1).text()
        ('1:00:00', '3 months', 'a business day')
        """
        if self.kind == "seconds":
            return str(timedelta(seconds=self.step)).removesuffix(", 0:00:00")
        if self.kind == "months":
            return "a month" if self.step == 1 else f"{self.step:g} months"
        return "a business day" if self.kind == "business days" else f"{self.step:g}"


@dataclass(frozen=True)
class TimeAxis:
    """Times as they are written, what they mean, and what comes next. Without a pattern the rows are only numbered.

    >>> axis = time_axis(["31/12/2019", "01/01/2020", "02/01/2020"])
    >>> axis.pattern, axis.spacing.text(), axis.after(2)
    ('%d/%m/%Y', '1 day', ('03/01/2020', '04/01/2020'))
    """

    texts: Sequence[str]
    moments: Sequence[Moment | None]
    pattern: str
    spacing: Spacing

    def after(self, count: int) -> tuple[str, ...]:
        """The texts of the next times."""
        last = next(moment for moment in reversed(self.moments) if moment is not None)
        return tuple(_written(moment, self.pattern, self.digits) for moment in self.spacing.after(last, count))

    @property
    def digits(self) -> int:
        """The digits after the point that numbers are written with."""
        return min(DIGITS, max((len(text.partition(".")[2]) for text in self.texts[-SAMPLE:]), default=0))

    def take(self, rows: Sequence[int]) -> "TimeAxis":
        """Some of the times."""
        return TimeAxis([self.texts[r] for r in rows], [self.moments[r] for r in rows], self.pattern, self.spacing)


def numbered_axis(count: int) -> TimeAxis:
    """Rows that are counted from 1."""
    numbers = range(1, count + 1)
    return TimeAxis(list(map(str, numbers)), list(map(float, numbers)), "", Spacing("rows", 1))


def time_axis(cells: Sequence[str], pattern: str = "", spacing: Spacing | None = None) -> TimeAxis:
    """The times that texts spell; None where one spells none. `pattern` and `spacing` are given where they are known."""
    some = cells[:: max(1, len(cells) // SAMPLE)]
    if not pattern or any(_moment(cell, pattern) is None for cell in some):
        pattern = pattern_of(cells) or NUMBERS
    moments = [_moment(cell, pattern) for cell in cells]
    return TimeAxis(cells, moments, pattern, spacing or _spacing_of([m for m in moments if m is not None]))


def text_of_time(value: Any) -> str:
    """A time of a program, as a file would have it."""
    if hasattr(value, "astype") and getattr(getattr(value, "dtype", None), "kind", "") == "M":  # numpy's
        value = value.astype("datetime64[us]").item()
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, date):
        return value.isoformat()
    return str(value).strip()


def pattern_of(cells: Sequence[str]) -> str:
    """How most times of a column are written: a pattern, "numbers", or "" where they are no times at all.

    Where day and month could be either, the reading in which time goes forward wins, then the one in which it goes in more even
    steps, and then the day comes first.

    >>> pattern_of(["2016-07-01 00:00:00", "2016-07-01 01:00:00"]), pattern_of(["12/30/2019", "01/02/2020"])
    ('%Y-%m-%d %H:%M:%S', '%m/%d/%Y')
    >>> pattern_of([f"{month:02}/01/{year}" for year in (2012, 2013) for month in range(1, 13)])
    '%m/%d/%Y'
    >>> pattern_of(["1949", "1950"]), pattern_of(["high", "low"])
    ('numbers', '')
    """
    some = [cell for cell in cells[:: max(1, len(cells) // SAMPLE)] if cell.strip()]
    best, most = "", (SHARE * len(some) - 1e-9, 0, 0.0)
    for pattern in _candidates(some):
        moments = [value for value in (_moment(cell, pattern) for cell in some) if value is not None]
        forward = sum(b > a for a, b in pairwise(moments))  # type: ignore[operator]
        if moments and (len(moments), forward) >= most[:2]:
            rank = (len(moments), forward, _evenness(cells[:SAMPLE], pattern))
            best, most = (pattern, rank) if rank > most else (best, most)
    return best


def _evenness(cells: Sequence[str], pattern: str) -> float:
    """The share of steps between times that are as most are: all of them equally long, or of equally many months."""
    moments = [moment for moment in (_moment(cell, pattern) for cell in cells) if isinstance(moment, datetime)]
    if len(moments) < 3:
        return 0.0
    months = [(b.year - a.year) * 12 + b.month - a.month if a.day == b.day else 0 for a, b in pairwise(moments)]
    steps = Counter(b - a for a, b in pairwise(moments)), Counter(number for number in months if number)
    return max(max(counts.values(), default=0) for counts in steps) / (len(moments) - 1)


def _candidates(cells: Sequence[str]) -> list[str]:
    """The patterns that one of the first cells has, in their order."""
    first = [(cell, _marks_in(cell)) for cell in cells[:10]]
    dates = [
        pattern for pattern, marks in MARKS.items()
        # an offset has marks of its own
        if any((pattern.endswith("%z") or own == marks) and _moment(cell, pattern) is not None for cell, own in first)
    ]  # fmt: skip
    return [*dates, NUMBERS]


def _marks_in(text: str) -> str:
    """The marks of a text that are neither letters, digits nor blanks: a date has those of its pattern, which is quick to see.

    >>> _marks_in("31/12/2019 10:30"), _marks_in("5")
    ('//:', '')
    """
    return "".join(letter for letter in text if not (letter.isalnum() or letter.isspace()))


MARKS = {pattern: _marks_in(pattern.replace("%", "")) for pattern in PATTERNS}


def _moment(cell: str, pattern: str) -> Moment | None:
    """The time that a text spells."""
    cell = cell.strip()
    try:
        if pattern == NUMBERS:
            value = float(cell)
            return value if abs(value) < float("inf") else None
        if len(cell) not in LENGTHS:
            return None
        if pattern.startswith("%Y-%m-%d") and len(cell) > 9 and not pattern.endswith("Z"):
            return _quick(cell, pattern)
        return datetime.strptime(cell, pattern)
    except ValueError:
        return None


def _quick(cell: str, pattern: str) -> datetime | None:
    """The result of `strptime` for ISO 8601, many times faster."""
    moment = datetime.fromisoformat(cell)
    same = (
        (moment.tzinfo is not None) == pattern.endswith("%z")
        and (":" in cell) == ("%M" in pattern)
        and (":" not in cell or cell[10] == pattern[8])
        and (cell.count(":") - (2 if cell[-6:-5] in "+-" and moment.tzinfo else 1) == 1) == ("%S" in pattern)
        and ("." in cell) == ("%f" in pattern)
    )
    return moment if same else None


def _written(value: Moment, pattern: str, digits: int = 0) -> str:
    """A time as its pattern writes it."""
    if not isinstance(value, datetime):
        return f"{value:.{digits}f}"
    if not pattern.endswith("%z"):
        return value.strftime(pattern)
    return value.strftime(pattern.removesuffix("%z")) + value.isoformat()[-6:]


def _spacing_of(moments: Sequence[Moment]) -> Spacing:
    """How far apart times are: months, business days, or else the median step.

    >>> days = [datetime(2012, 8, day) for day in (13, 14, 15, 16, 17, 20, 21)]
    >>> _spacing_of(days).kind, _spacing_of([1949.0, 1950.0, 1951.0])
    ('business days', Spacing(kind='numbers', step=1.0, holidays=()))
    """
    if not moments or not isinstance(moments[0], datetime):
        numbers = [float(moment) for moment in moments]  # type: ignore[arg-type]
        return Spacing(NUMBERS, median(_ups(numbers)) if len(numbers) > 1 else 1.0)
    dates = [moment for moment in moments if isinstance(moment, datetime)]
    if len(dates) < 2:
        return Spacing("seconds", A_DAY)
    months = Counter(12 * (b.year - a.year) + b.month - a.month for a, b in pairwise(dates))
    ((usual, times),) = months.most_common(1)
    one_day = len({moment.day for moment in dates}) == 1
    if usual > 0 and times >= SHARE * (len(dates) - 1) and (one_day or all(map(_ends_month, dates))):
        return Spacing("months", usual)
    seconds = median(_ups([(moment - dates[0]).total_seconds() for moment in dates]))
    week = (dates[-1] - dates[0]).days >= WEEK and all(moment.weekday() < 5 for moment in dates)
    if seconds == A_DAY and week:
        return Spacing("business days", 1, holidays_in(moment.date() for moment in dates))
    return Spacing("seconds", seconds)


def _ups(numbers: Sequence[float]) -> list[float]:
    """The steps forward; one where there is none."""
    return [b - a for a, b in pairwise(numbers) if b > a] or [1.0]


def _ends_month(moment: datetime) -> bool:
    return moment.day == monthrange(moment.year, moment.month)[1]


def _months_later(moment: datetime, months: int) -> datetime:
    """The same day some months later; the last day of a month stays the last."""
    year, month = divmod(12 * moment.year + moment.month - 1 + months, 12)
    last = monthrange(year, month + 1)[1]
    return moment.replace(year=year, month=month + 1, day=last if _ends_month(moment) else min(moment.day, last))


def readable(pattern: str) -> str:
    """A pattern as people write it.

    >>> readable("%d/%m/%Y %H:%M")
    'DD/MM/YYYY hh:mm'
    """
    for letter, name in DAYS.items():
        pattern = pattern.replace(f"%{letter}", name)
    return pattern.replace("%p", "AM").replace("%z", "+00:00")
