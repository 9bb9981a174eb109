"""`python -m reconciler`."""

import sys

from reconciler.main import main

sys.exit(main())
