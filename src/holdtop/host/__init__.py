"""The box around the hold: the shared state directory, who may write what, and which tools each account runs."""
