"""`python -m tests.model` is what `./scripts/model` runs."""

import sys

from tests.model.cli import main

sys.exit(main())
