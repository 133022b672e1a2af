"""How many examples the property tests try where they do not say it themselves: few here, many by `make fuzz`.

Laws that write and read whole lakes say a part of that number (`settings.default.max_examples // 3`).
"""

from hypothesis import settings

settings.register_profile("quick", max_examples=40)
settings.register_profile("thorough", max_examples=2000, deadline=None)
settings.load_profile("quick")
