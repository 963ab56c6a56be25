"""`python -m mirada`."""

from mirada.cli.main import main

main()
