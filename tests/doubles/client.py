"""The double of the client is the one of the embedded cluster, under the names that tests know."""

from ebbtide.sim.loaders.client import SUFFIX, Client, Heard, ImportFailedError

__all__ = ["SUFFIX", "Client", "Heard", "ImportFailedError"]
