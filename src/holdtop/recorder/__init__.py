"""The flight recorder: snapshots in rings on the disk, with bookmarks, and their reading again.

What is stored is the frozen ``Snapshot`` itself, so a recording is drawn, judged and compared by the very code that
draws the live box. It knows neither sampler nor screen: it is handed snapshots, and hands them back.
"""
