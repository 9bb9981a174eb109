"""Laws take the time they need: a busy machine is no counter-example."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
