"""Who has which id, so that a tab's file cannot break what is not its own."""

from collections import Counter
from collections.abc import Iterable, Sequence

from dashboard.own_tabs.callbacks import Callback, outputs
from dashboard.own_tabs.faults import OwnTabError

PAGE = "the page"


class Names:
    """The ids of elements by their owner, and what callbacks set already.

    taken: ids of the page's own elements.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self._owners = dict.fromkeys(taken, PAGE)
        self._set: set[str] = set()

    def claim(self, ids: Sequence[str], owner: str) -> None:
        """Take the ids of a layout for a tab. Raises OwnTabError: one is another's, or there twice."""
        for name, count in Counter(ids).items():
            if count > 1:
                raise OwnTabError(f"the id {name!r} is in the layout {count} times; give each element its own")
            has = self._owners.setdefault(name, owner)
            if has != owner:
                fix = f"choose another, such as '{owner}-{name}'"
                raise OwnTabError(f"the id {name!r} is taken by {has if has == PAGE else f'the tab {has}'}; {fix}")

    def claim_outputs(self, callbacks: Sequence[Callback], owner: str) -> None:
        """Take what the callbacks of a tab set. Raises OwnTabError: it is not the tab's, or is set twice."""
        for output in [output for callback in callbacks for output in outputs(callback)]:
            target = f"{output.component_id}.{output.component_property}"
            if self._owners.get(str(output.component_id), owner) != owner:
                raise OwnTabError(f"a callback sets {target}, which is the page's; set what is in the tab's own layout")
            if target in self._set and not output.allow_duplicate:
                raise OwnTabError(f"two callbacks set {target}; set it in one of them, or give allow_duplicate=True")
            self._set.add(target)
