"""The console on a recording: the same screens, fed by a player in the sampler's place."""
