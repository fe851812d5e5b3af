"""What the daemon reports of itself, and nothing that changes what is reported on.

`store` is the database as the daemon sees it, `status` what the API sends, and `exposition` what Prometheus reads.
"""
