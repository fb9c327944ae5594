"""Thresholds under constraints: candidate tables, exact searches, and the estimator."""
