"""The box around the holds: the shared state directory, who may write what, and what is wrong with the set-up."""
