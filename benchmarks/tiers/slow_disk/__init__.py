"""A slow disk that is honest: a loop device that the kernel holds back (root), or a library in front of a folder.

`choice` makes what can be had here, and `probe` measures it.
"""
