"""Settings: one TOML file and environment overrides become one frozen, typed value.

A module per group of sections describes the keys (`rebalance`, `scaler`, `admission`, `signals`, `process`, put
together in `settings`); `kinds` says what a value may look like, with `names` and `units`, `rules` what must hold
between values, `sizes` which rows make no sense. `loading` reads `source` and `environment`, reports all `problems`
together and says where each value came from; `schema` has every key there is, `known` finds the nearest to one that is
not; `show` and `reference` print.
"""

from ebbtide.config.loading import Loaded, load
from ebbtide.config.problems import ConfigurationError
from ebbtide.config.settings import Settings

__all__ = ["ConfigurationError", "Loaded", "Settings", "load"]
