"""The configuration file and what it refers to.

`loading` reads it with the secrets and the folders that it names, `reload` takes over what can change while the daemon
runs, `database` makes the store that it describes, and `api_token` finds or makes the token of the API.
"""

from daemon.core.configuration.loading import (
    LoadedConfig,
    identity_of,
    implied_file,
    load_config,
    load_most,
    warnings,
)

__all__ = ["LoadedConfig", "identity_of", "implied_file", "load_config", "load_most", "warnings"]
