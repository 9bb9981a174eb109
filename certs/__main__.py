"""`python -m certs`."""

import sys

from certs.main import main

sys.exit(main())
