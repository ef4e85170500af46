"""Resolve the many scenarios of a sweep: parts that points share (model, engine, card) are found once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from roofsim.spec.resolve import Resolver

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.spec.engine.schema import Engine
    from roofsim.spec.model.base import ModelSpec
    from roofsim.spec.reading.source import Document
    from roofsim.spec.reading.told_apart import Importer
    from roofsim.spec.scenario.workload import HardwareChoice, Workload
    from roofsim.spec.settle.hardware import Hardware

T = TypeVar("T")


class Shared:
    """What was found for earlier points: part of a scenario, as it was written -> what it is, and what was said of it."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, ...], tuple[Any, tuple[list[Any], ...], str]] = {}

    def of(self, key: tuple[str, ...], resolver: Resolver, find: Callable[[], T]) -> T:
        """Return what a part is: found before, or now; `resolver` hears what was assumed either way."""
        lists: tuple[list[Any], ...] = (resolver.assumed, resolver.origins, resolver.warnings)
        if key not in self._found:
            before = [len(heard) for heard in lists]
            value = find()
            said = tuple(list(heard[length:]) for heard, length in zip(lists, before, strict=True))
            self._found[key] = value, said, resolver.engine_label
            return value
        value, said, label = self._found[key]
        for heard, new in zip(lists, said, strict=True):
            heard.extend(new)
        resolver.engine_label = resolver.engine_label or label
        return value

    def resolver(self, document: Document, importer: Importer | None) -> Resolver:
        """Return what resolves one more document, and looks up only what none before it had."""
        return SharedResolver(document, importer, self)


class SharedResolver(Resolver):
    """Resolve one of many documents that differ in a few keys."""

    def __init__(self, document: Document, importer: Importer | None, shared: Shared) -> None:
        super().__init__(document, importer)
        self.shared = shared

    def model(self, given: str | dict[str, Any]) -> ModelSpec:
        """Find the model."""
        return self.shared.of(("model", _text(given)), self, lambda: super(SharedResolver, self).model(given))

    def engine(self, workload: Workload) -> Engine:
        """Find the engine."""
        words = [getattr(workload, name) for name in ("engine_facts", "attention", "memory_format", "phase")]
        key = ("engine", _text(self._at("workload", "engine")), _text(words))
        return self.shared.of(key, self, lambda: super(SharedResolver, self).engine(workload))

    def hardware(self, choice: HardwareChoice, gpus: int) -> Hardware:
        """Find card and node."""
        key = ("hardware", str(gpus), _text(self._at("hardware")))
        return self.shared.of(key, self, lambda: super(SharedResolver, self).hardware(choice, gpus))

    def _at(self, *path: str) -> Any:
        at: Any = self.document.data
        for part in path:
            at = at.get(part) if isinstance(at, dict) else None
        return at


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=repr)
