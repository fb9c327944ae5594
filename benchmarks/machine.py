"""What machine and what versions the figures come from."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("imbfit", "numpy", "scipy", "scikit-learn", "ortools", "fairlearn", "xgboost-cpu")


def describe() -> dict[str, str]:
    """Describe it in a few words."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = models[0].split(":")[1].strip() if models else cpu
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return {
        "cpu": cpu,
        "cores": str(os.cpu_count()),
        "system": platform.system(),
        "python": platform.python_version(),
        "load": load,
        **versions,
    }
