"""Find the modules of a program that a plan names, and say how tensors lie on ranks in a plan's words."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NoReturn

from roofsim.errors import Problem, SpecError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from roofsim.lower.captured.splits import Split
    from roofsim.spec.model.module_plan import ModulePlan, ModuleStyle


def styles_of(plan: ModulePlan, paths: Iterable[str], name: str) -> dict[str, ModuleStyle]:
    """Return the modules that a plan names, each with what it says of it; `paths` are those of ops, `name` stands in messages.

    Raises
    ------
    SpecError
        For a name that no module has, and for a module that two lines name.
    """
    modules = _all_modules(paths)
    styles: dict[str, ModuleStyle] = {}
    for pattern, style in plan.tensor.items():
        named = [module for module in modules if _matches(module, pattern)]
        if not named:
            fail_plan(name, pattern, "no module of this name is called", did_you_mean(pattern, _starred(modules)))
        for module in named:
            if module in styles:
                fail_plan(name, pattern, f"names {module}, which another line of the plan names", "Leave one out.")
            styles[module] = style
    return styles


def fail_plan(name: str, pattern: str, message: str, hint: str) -> NoReturn:
    """Raise for a line of the plan of a program."""
    raise SpecError(Problem(f"{name}: {pattern}: {message}", path="model.parallelize.tensor", hint=hint))


def layout_of(split: Split | None, shape: Sequence[Any]) -> str:
    """Return how a tensor lies on the ranks, as a plan says it."""
    if split is None:
        return "Replicate"
    return "Shard(-1)" if split.dim == len(shape) - 1 else f"Shard({split.dim})"


def _matches(module: str, pattern: str) -> bool:
    """Tell whether a pattern names a module: a part of the one for each part of the other."""
    names, parts = module.split("."), pattern.split(".")
    return len(names) == len(parts) and all(map(fnmatchcase, names, parts))


def _all_modules(paths: Iterable[str]) -> list[str]:
    """Return modules and those around them, in the order in which they are called."""
    return list(dict.fromkeys(module for path in dict.fromkeys(paths) for module in outermost_first(path)))


def outermost_first(path: str) -> list[str]:
    """Return a module and those around it.

    >>> outermost_first("model.layers.0")
    ['model', 'model.layers', 'model.layers.0']
    """
    parts = path.split(".")
    return [".".join(parts[: at + 1]) for at in range(len(parts))] if path else []


def _starred(modules: Iterable[str]) -> list[str]:
    """Return modules with a star for the place in a list, each once."""
    starred = (".".join("*" if part.isdecimal() else part for part in module.split(".")) for module in modules)
    return list(dict.fromkeys(starred))


def is_inside(path: str, module: str) -> bool:
    """Tell whether a module is another, or inside of it."""
    return path == module or path.startswith(f"{module}.")
