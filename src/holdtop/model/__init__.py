"""Pure values: what was read, what it means, and what is wrong. Imports the standard library only."""
