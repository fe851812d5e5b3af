"""`triggerlog config-reference`: the models of `schemas.config` in, Markdown (docs/configuration.md) out."""
