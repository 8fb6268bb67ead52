"""A box to try holdtop on: real processes in a real queue of its own, on recorded sensors that move.

``sandbox`` starts a guardian (a process of its own) that sets everything up, watches the demo's process by
pidfd, and removes all of it when that process is gone, however it went.
"""
