"""A self-hosted CI runner as a systemd unit that survives its jobs: settings, checked as a whole, become a unit."""
