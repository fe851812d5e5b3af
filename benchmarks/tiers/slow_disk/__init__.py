"""A slow disk that is honest: a loop device that the kernel holds back (root), or a library in front of a folder.

`choice` takes what can be had here; `throttled` is the one, `shimmed` the other, and `probe` measures either.
"""
