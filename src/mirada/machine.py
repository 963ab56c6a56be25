"""What the machine has."""

import os


def physical_memory() -> int:
    """The bytes of memory that the machine has; 0 where the system does not say (Windows).

    >>> physical_memory() == 0 or physical_memory() > 2**24
    True
    """
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0
