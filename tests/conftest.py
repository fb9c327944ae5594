"""Settings of all tests."""

from hypothesis import settings

# Two busy cores: a slow example is no failure, and a failing one must fail again tomorrow.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")
