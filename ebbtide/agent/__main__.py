"""`python -m ebbtide.agent`, which is what `ebbtide agent` becomes once it has read the configuration."""

import sys

from ebbtide.agent.main import main

sys.exit(main())
