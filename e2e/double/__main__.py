"""`python -m e2e.double serve MODEL --flags`."""

import sys

from e2e.double.command import main

sys.exit(main())
