"""Say what a page's answer was asked with: its command, the Python that gives the same, the scenario to copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roofsim.decide.long_job import Work
    from roofsim.evaluate import Evaluation


@dataclass(frozen=True, kw_only=True)
class AskedReport:
    """What made an answer.

    Attributes
    ----------
    verb
        ``run``, ``compare`` ...
    command
        As a shell reads it; None where it was Python.
    scenario
        What was asked, as a scenario file has it, with the options of the command put in; None where there is none.
    arguments
        What else the Python function takes: ``{"gpus": ["a100", "h100"]}``.
    evaluation
        Of `run`: what the result was made of, for the pictures that need it; made again where it is not given.
    figures, places
        Of `sweep`: which figures are shown, and which points in which order; all, if left out.
    printed, also
        What ``--json`` prints where that is more than the answer itself, and the answers that it holds beside.
    """

    verb: str
    command: str | None = None
    scenario: dict[str, Any] | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    evaluation: Evaluation | None = None
    figures: tuple[str, ...] = ()
    places: tuple[int, ...] | None = None
    printed: dict[str, Any] | None = None
    also: tuple[Any, ...] = ()

    @property
    def yaml(self) -> str | None:
        """The scenario as a file."""
        return None if self.scenario is None else yaml_of(self.scenario)

    @property
    def python(self) -> str | None:
        """The call that gives the same answer."""
        if self.scenario is None and not self.arguments:
            return None
        job = next((one.work for one in self.also if hasattr(one, "work")), None)
        if job is not None and self.verb == "run" and self.scenario is not None:
            return _of_job(self.scenario, job)
        given = [] if self.scenario is None else [_literal(self.scenario)]
        given += [
            f"{name}={_literal(value)}" for name, value in self.arguments.items() if value not in (None, (), [], {}, "")
        ]
        call = f"answer = roofsim.{self.verb}({', '.join(given)})"
        if len(call) > 100:
            inner = "".join(f"    {one},\n" for one in (each.replace("\n", "\n    ") for each in given))
            call = f"answer = roofsim.{self.verb}(\n{inner})"
        return f"import roofsim\n\n{call}\nprint(answer)"


def _of_job(scenario: Mapping[str, Any], work: Work) -> str:
    """Return the calls that give a result, and what a whole job of it takes."""
    stated = {name: value for name, value in vars(work).items() if value is not None and value != {}}
    said = ", ".join(f"{name}={_literal(value)}" for name, value in stated.items())
    return (
        "import roofsim\nfrom roofsim.decide.long_job import Work, cost_of_job\n\n"
        f"scenario = {_literal(dict(scenario))}\nanswer = roofsim.run(scenario)\n"
        f"job = cost_of_job(roofsim.evaluate(roofsim.resolve(scenario)), answer, Work({said}))\nprint(answer)\nprint(job)"
    )


def yaml_of(scenario: Mapping[str, Any]) -> str:
    """Return a scenario as the text of a file."""
    import yaml

    text: str = yaml.safe_dump(dict(scenario), sort_keys=False, allow_unicode=True, width=100)
    return text.rstrip("\n")


def _literal(value: Any) -> str:
    from pprint import pformat

    return pformat(value, width=92, sort_dicts=False, compact=True)
