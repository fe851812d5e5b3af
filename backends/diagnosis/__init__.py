"""What is wrong with a database, and how to fix it, in the same words whatever the database.

`schema`: what is stored differs from the configuration. `tls`: a certificate is not trusted. `refusals`: a
login is turned away, or an answer takes too long. `retention`: a period is not dropped.
"""
