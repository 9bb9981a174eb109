"""Settings: one TOML file and environment overrides become one frozen, typed value.

A module per group of sections describes the keys (`rebalance`, `scaler`, `admission`, `signals`, `process`, put
together in `settings`); `kinds` says what a value may look like, `rules` what must hold between values; `loading`
reads, reports all problems together and says where each value came from; `show` and `reference` print.
"""

from ebbtide.config.loading import Loaded, load
from ebbtide.config.problems import ConfigurationError
from ebbtide.config.settings import Settings

__all__ = ["ConfigurationError", "Loaded", "Settings", "load"]
