"""Read-only readers of the kernel's files. Each is handed the root below which it reads, and keeps no state.

What cannot be read comes back as a ``Reading`` with its reason; no reader raises for what lies in a file.
None opens a device node: a monitor must not appear as a user of the device.
"""
