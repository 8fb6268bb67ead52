"""The widgets: each draws lines, and repaints only those that changed."""
