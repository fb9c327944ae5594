"""Training straight for a metric: a game between a predictor and an adversary, solved exactly."""
