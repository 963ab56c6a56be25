"""The holidays of business days: the days of a year on which rows are missing, every year.

days -> the rules that each day has (a date, a weekday of a month, days after Easter) -> rules whose days are all missing
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import date, timedelta

YEARS = 2  # in which a day has to be missing
AFTER_EASTER = (-48, -47, -3, -2, 1, 39, 50, 60)  # Carnival, Maundy Thursday, Good Friday, ..., Corpus Christi
SPARSE = 4  # days for a row, above which most weekdays have none
WEEKEND = 5  # the first weekday that is none of business
ORDER = ("date", "easter", "weekday", "last")  # where days are missing by several rules, the first explains them


def rules_of(day: date) -> tuple[str, ...]:
    """What a holiday could be that falls on a day.

    >>> rules_of(date(2018, 11, 22)), rules_of(date(2018, 3, 30))
    (('date 11-22', 'weekday 11-4-3'), ('date 03-30', 'easter -2', 'weekday 03-5-4', 'last 03-4'))
    """
    after = (day - easter(day.year)).days
    month = f"{day.month:02}"
    return (
        f"date {month}-{day.day:02}",
        *([f"easter {after}"] if after in AFTER_EASTER else []),
        f"weekday {month}-{(day.day + 6) // 7}-{day.weekday()}",
        *([f"last {month}-{day.weekday()}"] if (day + timedelta(days=7)).month != day.month else []),
    )


def easter(year: int) -> date:
    """Easter Sunday of the Gregorian calendar.

    >>> easter(2018).isoformat(), easter(2024).isoformat()
    ('2018-04-01', '2024-03-31')

    Meeus (1991), Astronomical Algorithms, chapter 8.
    """
    a, (b, c) = year % 19, divmod(year, 100)
    h = (19 * a + b - b // 4 - (b - (b + 8) // 25 + 1) // 3 + 15) % 30
    most = (32 + 2 * (b % 4) + 2 * (c // 4) - h - c % 4) % 7
    m = (a + 11 * h + 22 * most) // 451
    month, before = divmod(h + most - 7 * m + 114, 31)
    return date(year, month, before + 1)


def holidays_in(days: Iterable[date]) -> tuple[str, ...]:
    """The rules of the weekdays that are missing between the first and the last of some days, in every year.

    A rule has to hold in `YEARS` years at least. One that explains most missing days is taken first, and no other is taken for
    the same days.

    >>> weekdays = [date(2018, 1, 2) + timedelta(days=n) for n in range(1400)]
    >>> holidays_in(day for day in weekdays if day.weekday() < 5 and (day.month, day.day) not in [(12, 25), (1, 1)])
    ('date 01-01', 'date 12-25')
    """
    known = set(days)
    if not known or (max(known) - min(known)).days > SPARSE * len(known):
        return ()
    there, missing = defaultdict[str, int](int), defaultdict[str, set[date]](set)
    day, end = min(known), max(known)
    while day <= end:
        if day.weekday() < WEEKEND:
            for rule in rules_of(day):
                if day in known:
                    there[rule] += 1
                else:
                    missing[rule].add(day)
        day += timedelta(days=1)
    always = [rule for rule, some in missing.items() if len(some) >= YEARS and not there[rule]]
    found, explained = [], set[date]()
    for rule in sorted(always, key=lambda rule: (-len(missing[rule]), ORDER.index(rule.split()[0]), rule)):
        if missing[rule] - explained:
            found.append(rule)
            explained |= missing[rule]
    return tuple(sorted(found))
