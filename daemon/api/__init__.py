"""The control API: what the daemon does, what it stored, and what it can be asked to do.

`app` puts the routes together, one module a subject; the models of requests and answers are in `schemas.api`.
`daemon.web.access` and `query_limit` say who may ask what, and how often; `server` listens.
"""

from daemon.api.app import make_app
from daemon.api.server import ApiServer, api_server

__all__ = ["ApiServer", "api_server", "make_app"]
