"""Settings of the doctests of the package."""

from importlib.util import find_spec

# It is a module of an optional package, which can't be imported without it.
collect_ignore = [] if find_spec("torch") else ["imbfit/adversarial/torch.py"]
