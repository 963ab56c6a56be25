"""`python -m mirada`, and the command `mirada`: Ctrl-C is handled before anything is imported."""

import os
import sys
from types import FrameType


def main() -> None:
    """Run a command; Ctrl-C during its imports ends it with one line."""
    try:
        import signal

        # a process that ignores SIGINT keeps ignoring it
        ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if ours:
            signal.signal(signal.SIGINT, _stop_at_once)
        from mirada.cli.main import main as run

        if ours:
            signal.signal(signal.SIGINT, _stop)
        run()
    except KeyboardInterrupt:
        os.write(2, b"mirada: stopped\n")
        sys.exit(130)


def _stop(number: int, frame: FrameType | None) -> None:
    """As Python does, except while a command imports what it needs: numpy makes another error of the exception."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _stop_at_once(number, frame)
        frame = frame.f_back
    raise KeyboardInterrupt


def _stop_at_once(number: int, frame: object) -> None:
    """End the process: an exception could get lost during an import, and there is nothing to save yet."""
    os.write(2, b"mirada: stopped\n")
    os._exit(130)


if __name__ == "__main__":
    main()
