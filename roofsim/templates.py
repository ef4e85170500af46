"""Keep what was built of symbols: a scenario that differs from one before in numbers alone is made of its structure."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import contextmanager, suppress
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from roofsim.graph.bound import Template

T = TypeVar("T")

#: Forms that are kept, and templates of one form, whose code decided otherwise on its way.
_MOST_FORMS: Final = 64
_MOST_WAYS: Final = 12


class _Form:
    """What is kept of one form: the numbers of the scenario that came first, and templates, the latest used first."""

    __slots__ = ("numbers", "templates")

    def __init__(self, numbers: Sequence[Any]) -> None:
        self.numbers = numbers
        self.templates: list[Template] = []


class Templates:
    """The templates of the latest forms of scenarios; safe to use from several threads.

    What the first scenario of a form asks is built as it is, as nobody may ask for another; with the second a template is made.
    """

    def __init__(self) -> None:
        self._forms: OrderedDict[Hashable, _Form] = OrderedDict()
        self._lock = RLock()
        self._expecting = 0
        self.built = 0
        """Templates that were built so far."""

    @contextmanager
    def expecting_others(self) -> Iterator[None]:
        """Make templates with the first scenario of a form: others are known to come."""
        with self._lock:
            self._expecting += 1
        try:
            yield
        finally:
            with self._lock:
                self._expecting -= 1

    def made(
        self,
        form: Hashable,
        numbers: Sequence[Any],
        sizes: Sequence[Any],
        make: Callable[[], T],
        make_of: Callable[[Sequence[Any]], T],
        structural: int,
    ) -> T:
        """Return what is made of the numbers of a scenario, and of some sizes that follow from it.

        Parameters
        ----------
        form
            All else that it depends on.
        make
            Makes it plainly.
        make_of
            Makes it of other numbers and sizes, or of symbols for them.
        structural
            How many of the numbers, the first, are asked for themselves if need be: those of a model.
        """
        with self._lock:
            known = self._form(form, numbers)
            if known is None:
                return make()
            given = [*numbers, *sizes]
            for place, template in enumerate(known.templates):
                made = template.of(given)
                if made is not None:
                    known.templates.insert(0, known.templates.pop(place))
                    return made  # type: ignore[no-any-return]
            if len(known.templates) < _MOST_WAYS:
                new = self._template(make_of, given, structural)
                if new is not None:
                    known.templates.insert(0, new)
                    return new.of(given)  # type: ignore[no-any-return]
        return make()

    def _form(self, form: Hashable, numbers: Sequence[Any]) -> _Form | None:
        """Return what is known of a form; None: no scenario of other numbers was met."""
        known = self._forms.get(form)
        if known is None:
            known = self._forms[form] = _Form(numbers)
            while len(self._forms) > _MOST_FORMS:
                self._forms.popitem(last=False)
        self._forms.move_to_end(form)
        return known if self._expecting or known.templates or known.numbers != numbers else None

    def _template(
        self, make_of: Callable[[Sequence[Any]], Any], given: Sequence[Any], structural: int
    ) -> Template | None:
        """Build a template; where code asks for numbers of the model themselves, one for models with these alone."""
        from roofsim.graph.bound import UNTRACED, Template

        for fixed in dict.fromkeys((0, structural)):
            with suppress(*UNTRACED):
                template = Template(make_of, given, fixed)
                self.built += 1
                return template
        return None

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._forms.clear()


TEMPLATES: Final = Templates()
