"""The box around the holds: what is wrong with its set-up, and what else may be asked about it."""
