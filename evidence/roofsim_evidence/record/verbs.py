"""What `evidence record` does, and the page that shows the record."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from roofsim.errors import Place, Problem, SpecError, did_you_mean
from roofsim.records import dataclass
from roofsim_evidence.places import checkout
from roofsim_evidence.record import line as lines
from roofsim_evidence.record.check import FORM, unexplained
from roofsim_evidence.record.scores import score_all, score_set
from roofsim_evidence.record.sets import SETS

if TYPE_CHECKING:
    from pathlib import Path

    from roofsim_evidence.pages import DocsPage
    from roofsim_evidence.record.check import Worse

_NO_SCORES = "there are no scores in evidence/record. `evidence record` writes them"


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What today's scores say beside the last release's.

    Attributes
    ----------
    stale
        Whether the scores were written with other constants than those of today.
    worse
        What got worse, and is not explained in the changelog.
    """

    since: str | None
    stale: bool
    worse: list[Worse]

    @property
    def good(self) -> bool:
        """Whether nothing is to be mended."""
        return not self.stale and not self.worse

    def text(self) -> str:
        """Say what is to be mended, or that nothing is."""
        said = ["The scores are of other constants: run `evidence record`."] if self.stale else []
        said += [one.words() for one in self.worse]
        if self.worse:
            said.append(
                f"Worse than at {self.since}, and not explained in CHANGELOG.md. Mend it, or explain each cell:"
            )
            said.append(f"  {FORM}")
        return "\n".join(said or [f"nothing is worse than at {self.since or 'any release'} without an explanation"])


def today() -> str:
    """Return the date, in coordinated universal time."""
    return datetime.now(UTC).date().isoformat()


def write(*, release: bool = False) -> list[Path]:
    """Score every set, keep the scores of today (with `release`, also as the line of the version), and write the page.

    Takes minutes.
    """
    line = lines.line_of_today(today(), score_all())
    written = [lines.save_now(line)]
    written += [lines.add_release(line)] if release else []
    return [*written, *page().write()]


def plain(name: str) -> str:
    """Score one set both ways, and say what the defaults cost: in all, and by source.

    Raises
    ------
    SpecError
        When there is no such set: with those that there are.
    """
    from roofsim_evidence.record.page import gaps_table, plain_table

    if name not in SETS:
        near = did_you_mean(name, tuple(SETS))
        raise SpecError(
            Problem(f"{name} is not scored plainly. {near}", Place("--plain"), "", f"Sets: {', '.join(SETS)}.")
        )
    scored = {name: {"stated": score_set(name), "plain": score_set(name, plain=True)}}
    line = lines.line_of_today(today(), scored)
    return f"{plain_table(line)}\n\n{gaps_table(line, name)}\n"


def check() -> Checked:
    """Hold the scores that were kept last against the last release before them.

    Raises
    ------
    SpecError
        When no scores were kept, or an explanation in the changelog cannot be read.
    """
    now = lines.now()
    if now is None:
        raise SpecError(Problem(_NO_SCORES))
    stale = now.constants != lines.constants_hash()
    releases = lines.releases()
    if not releases:
        return Checked(since=None, stale=stale, worse=[])
    last = releases[-1]
    changelog = (checkout() / "CHANGELOG.md").read_text(encoding="utf-8")
    return Checked(since=last.version, stale=stale, worse=unexplained(last, now, changelog))


def page() -> DocsPage:
    """Return docs/track-record.md."""
    from roofsim_evidence.record.page import page as filled

    now = lines.now()
    if now is None:
        raise SpecError(Problem(_NO_SCORES))
    return filled(lines.releases(), now)
