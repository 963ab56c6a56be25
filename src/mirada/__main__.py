"""`python -m mirada`, and the command `mirada`: nothing is imported before Ctrl-C is looked after."""

import os
import sys


def main() -> None:
    """Run a command; one that is stopped while it is being loaded says so in a line."""
    try:
        import signal

        ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # whoever ignores it goes on ignoring it
        if ours:
            signal.signal(signal.SIGINT, _stop_at_once)
        from mirada.cli.main import main as run

        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        os.write(2, b"mirada: stopped\n")
        sys.exit(130)


def _stop_at_once(number: int, frame: object) -> None:
    """End the process: an exception could be lost in the middle of an import, and there is nothing to lose yet."""
    os.write(2, b"mirada: stopped\n")
    os._exit(130)


if __name__ == "__main__":
    main()
