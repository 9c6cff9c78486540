"""`python -m mpnp` is `mpnp`."""

import sys

from mpnp.cli import main

sys.exit(main())
