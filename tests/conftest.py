"""Settings of all tests."""

import os

# Before numpy is imported: thread pools of several test processes fight over the cores.
for _pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_pool, "1")

from hypothesis import settings  # noqa: E402

# Two busy cores: a slow example is no failure, and a failing one must fail again tomorrow.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")
