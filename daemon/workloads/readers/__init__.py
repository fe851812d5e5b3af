"""Reader workloads: processes of their own that read what is being written, and what they measure.

Their manager is in `manager`; what runs in such a process begins in `process`.
"""
