"""`python -m e2e.double serve MODEL --flags`."""

import sys

from e2e.double import command

command.interrupt_on_sigterm()
sys.exit(command.main())
