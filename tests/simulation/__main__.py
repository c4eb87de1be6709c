"""`python -m tests.simulation`: run seeds, replay one, or show what finds the broken variants."""

import sys

from tests.simulation.command import main

sys.exit(main())
