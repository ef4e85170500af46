"""Records are what `dataclasses` would make of the same class."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from typing import Any, ClassVar

import pytest

from roofsim import records


def twins(maker, field):
    @maker(frozen=True)
    class Point:
        """A point."""

        kind: ClassVar[str] = "point"
        x: float
        y: float = 0.0
        note: str = field(default="", compare=False, repr=False)

    @maker(frozen=True, kw_only=True, eq=False)
    class Op:
        name: str
        inputs: tuple[int, ...] = ()
        made: list[int] = field(default_factory=list)
        size: float = field(init=False)

        def __post_init__(self):
            object.__setattr__(self, "size", float(len(self.inputs)))

    @maker(frozen=True, kw_only=True, eq=False)
    class Matmul(Op):
        flops: float = 1.0

    @maker
    class Open:
        values: dict[str, int] = field(default_factory=dict)

    return Point, Op, Matmul, Open


OURS = twins(records.dataclass, records.field)
THEIRS = twins(dataclasses.dataclass, dataclasses.field)
CALLS = [
    lambda point, op, matmul, opened: point(1.0),
    lambda point, op, matmul, opened: point(1.0, y=2.0),
    lambda point, op, matmul, opened: point(x=3.0, y=4.0, note="n"),
    lambda point, op, matmul, opened: point(),
    lambda point, op, matmul, opened: point(1.0, 2.0, "n", 4),
    lambda point, op, matmul, opened: point(1.0, x=2.0),
    lambda point, op, matmul, opened: point(1.0, z=2.0),
    lambda point, op, matmul, opened: op(name="a", inputs=(1, 2)),
    lambda point, op, matmul, opened: op("a"),
    lambda point, op, matmul, opened: op(name="a", size=3.0),
    lambda point, op, matmul, opened: matmul(name="m", flops=2.0),
    lambda point, op, matmul, opened: opened(),
    lambda point, op, matmul, opened: opened({"a": 1}),
    lambda point, op, matmul, opened: point(1.0) == point(1.0, note="other"),
    lambda point, op, matmul, opened: hash(point(1.0)) == hash(point(1.0, note="other")),
    lambda point, op, matmul, opened: op(name="a") == op(name="a"),
    lambda point, op, matmul, opened: hash(opened()),
    lambda point, op, matmul, opened: setattr(point(1.0), "x", 2.0),
    lambda point, op, matmul, opened: delattr(point(1.0), "x"),
]


def outcome(call, classes):
    try:
        return repr(call(*classes)).replace("(record)", "")
    except Exception as error:
        return type(error).__name__, str(error).split(" of ")[0]


@pytest.mark.parametrize("repeats", [1, 100], ids=["first", "compiled"])
@pytest.mark.parametrize("call", CALLS)
def test_a_record_is_what_the_standard_library_makes(call, repeats):
    for _ in range(repeats):
        ours = outcome(call, OURS)
    theirs = outcome(call, THEIRS)
    assert ours == theirs or (isinstance(ours, tuple) and ours[0] == theirs[0])


def test_copies_with_changes():
    point, op, matmul, _ = OURS
    assert records.replace(point(1.0), y=5.0) == point(1.0, 5.0) == dataclasses.replace(point(1.0), y=5.0)
    assert records.replace(op(name="a", inputs=(1,)), inputs=(1, 2)).size == 2.0
    assert records.replace(matmul(name="m"), flops=3.0).flops == 3.0
    for wrong in ({"z": 1}, {"kind": "line"}):
        with pytest.raises(TypeError):
            records.replace(point(1.0), **wrong)


def test_the_standard_functions_know_records():
    point: Any
    point, op, matmul, _ = OURS
    assert dataclasses.is_dataclass(OURS[0])
    assert [field.name for field in dataclasses.fields(matmul)] == ["name", "inputs", "made", "size", "flops"]
    assert [field.name for field in records.fields(matmul)] == ["name", "inputs", "made", "size", "flops"]
    assert dataclasses.asdict(op(name="a")) == records.asdict(op(name="a"))
    assert point.__match_args__ == ("x", "y", "note")
    match point(1.0, 2.0):
        case point(x, y):
            assert (x, y) == (1.0, 2.0)


@records.dataclass(frozen=True)
class Kept:
    """A record of a module, which pickle finds."""

    values: tuple[int, ...]


def test_a_record_is_pickled_and_copied():
    assert pickle.loads(pickle.dumps(Kept((1, 2)))) == Kept((1, 2)) == copy.deepcopy(Kept((1, 2)))


def test_a_cached_property_is_not_copied():
    from functools import cached_property

    @records.dataclass(frozen=True)
    class Counted:
        values: tuple[int, ...]

        @cached_property
        def total(self):
            return sum(self.values)

    assert Counted((1, 2)).total == 3
    first = Counted((1, 2))
    assert first.total == 3
    assert records.replace(first, values=(5,)).total == 5


def test_a_default_that_can_change_is_refused():
    shared = type("Shared", (), {"__annotations__": {"values": "list[int]"}, "values": []})
    with pytest.raises(TypeError, match="default_factory"):
        records.dataclass(shared)


def test_making_a_class_compiles_nothing():
    """And so imports neither `dataclasses` nor `inspect`."""
    code = (
        "import sys\nfrom roofsim.records import dataclass\n"
        "@dataclass(frozen=True)\nclass P:\n    x: int = 0\n"
        "assert P(3) == P(x=3) and repr(P(1)).endswith('P(x=1)')\nassert not {'dataclasses', 'inspect'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{code}"], check=True)
    assert inspect.isclass(Kept)


def test_what_is_computed_is_worked_out_again_where_it_may_change():
    worked_out = []

    @records.dataclass(frozen=True, eq=False)
    class Box:
        sides: tuple[float, ...]
        colour: str = "red"
        volume: float = records.computed("sides")

        def __post_init__(self):
            worked_out.append(self.sides)
            self.__dict__["volume"] = self.sides[0] * self.sides[1]

    box = Box((2.0, 3.0))
    assert records.replace(box, colour="blue").volume == 6.0
    assert len(worked_out) == 1
    assert records.replace(box, sides=(4.0, 5.0)).volume == 20.0
    assert len(worked_out) == 2
    with pytest.raises(TypeError, match="volume"):
        records.replace(box, volume=1.0)
