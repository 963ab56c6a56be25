"""The command line. It starts without torch: a command imports what it needs when it runs."""
