"""A contained process tree, without any queue: launching it, finding its members, ending it with proof."""
