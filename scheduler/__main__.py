"""``python -m scheduler`` is the same as ``scheduler``."""

from scheduler.cli.main import main

main()
