"""What the API says is wrong with a request."""

import httpx

from schemas.api.model import Problem


def line_of(answer: httpx.Response) -> str:
    """The problem of an answer that is an error, in one line."""
    return str(Problem.model_validate_json(answer.content))
