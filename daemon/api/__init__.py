"""The control API: what the daemon does, what it stored, and what it can be asked to do.

`app` puts the routes together, one module a subject, and listens; the models of requests and answers are in
`schemas.api`. `daemon.web.access` and `parameters` say who may ask what, and how often.
"""

from daemon.api.app import ApiServer, api_server, make_app

__all__ = ["ApiServer", "api_server", "make_app"]
