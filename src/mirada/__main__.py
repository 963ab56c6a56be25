"""`python -m mirada`, and the command `mirada`: nothing is imported before Ctrl-C is looked after."""

import os
import sys


def main() -> None:
    """Run a command; one that is stopped while it is being loaded says so in a line."""
    try:
        from mirada.cli.main import main as run

        run()
    except KeyboardInterrupt:
        os.write(2, b"mirada: stopped\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
