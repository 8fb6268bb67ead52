"""The headless notifier: the console's flags, told once each to the journal, stderr and the service manager."""
