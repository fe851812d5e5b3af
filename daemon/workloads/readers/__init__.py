"""Reader workloads: processes of their own that read what is being written, and what they measure.

Their daemon's end is `manager`, and `governor` holds them back; what runs in such a process begins in `__main__`.
"""
