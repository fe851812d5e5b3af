"""A mark as a database gives it, which people may have written into by hand."""

from typing import Any

from pydantic import ValidationError

from backends.base import StoreError
from schemas.marks import Mark


def stored_mark(table: str, fields: dict[str, Any]) -> Mark:
    """The mark that these fields are.

    Raises:
        StoreError: they are none.
    """
    try:
        return Mark.model_validate(fields)
    except ValidationError as error:
        field = ".".join(map(str, error.errors()[0]["loc"])) or "until_ns"
        raise StoreError(
            f"{table} has a row {fields['id']!r} that is no mark, by its {field}; correct or remove it"
        ) from None
