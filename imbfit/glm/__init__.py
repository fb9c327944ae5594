"""Generalised linear models for rare events, fitted on a sample of the negatives."""
