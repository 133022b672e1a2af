"""How many examples the property tests try where they do not say it themselves: few here, many by `make fuzz`."""

from hypothesis import settings

settings.register_profile("quick", max_examples=40)
settings.register_profile("thorough", max_examples=2000, deadline=None)
settings.load_profile("quick")
