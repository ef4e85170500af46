"""Choose what the forward pass keeps for the backward pass: a minimum cut of the joint graph.

The rules are those of torch/_functorch/partitioners.py, `solve_min_cut`, with its default settings.
"""

from __future__ import annotations

import heapq
from math import inf
from typing import TYPE_CHECKING, Final

from roofsim.graph.cut import FlowNetwork

if TYPE_CHECKING:
    from roofsim.passes.partition.joint import Joint, Value

#: A value so much smaller than what it is made of is not made again (should_ban_recomputation).
SMALL: Final = 4.0
#: How much dearer a value counts for each op between it and the backward pass, and up to how many (get_node_weight).
PER_STEP, MOST_STEPS = 1.1, 100
#: What is neither read from memory nor written to it must be written first.
UNWRITTEN: Final = 2.0
#: A chain of merged ops that is longer is cut (ban_recompute_long_fusible_chains).
LONG_CHAIN: Final = 100


def kept(joint: Joint, sizes: list[float]) -> set[Value]:
    """Return the values on the cut, parameters and inputs apart."""
    banned = _banned(joint, sizes)
    distances = _distances(joint)
    source, sink = 2 * len(joint.values), 2 * len(joint.values) + 1
    network = FlowNetwork(sink + 1)
    for value in joint:
        entry, leaving = 2 * value.number, 2 * value.number + 1
        if value.gradient:
            network.connect(entry, sink)
            continue
        if value.given or value in banned:
            network.connect(source, entry)
        # What the backward pass alone makes stays there, though it needs no gradient.
        movable = value.forward or value.given
        network.connect(entry, leaving, _weight(value, sizes[value.number], distances) if movable else inf)
        for user in value.users:
            network.connect(leaving, 2 * user.number)
    behind = network.behind_the_cut(source, sink)
    return {
        value
        for value in joint
        if not (value.gradient or value.given) and behind[2 * value.number + 1] and not behind[2 * value.number]
    }


def _weight(value: Value, size: float, distances: dict[Value, int]) -> float:
    weight = size * PER_STEP ** max(min(distances[value], MOST_STEPS), 1)
    unwritten = all(value.merges_into(user) for user in value.users)
    return weight * UNWRITTEN if unwritten else weight


def _distances(joint: Joint) -> dict[Value, int]:
    """Return for each value how many ops lie between it and the backward pass."""
    steps: dict[Value, int] = {}
    for value in reversed(joint.values):
        steps[value] = min((steps[user] + 1 for user in value.users), default=MOST_STEPS) if value.forward else 0
    return steps


def _banned(joint: Joint, sizes: list[float]) -> set[Value]:
    """Return the values of the forward pass that are never made again."""
    forward = [value for value in joint if value.forward]
    banned = {value for value in forward if _never_again(value, sizes)}
    return _long_chains(forward, banned | _used_far_apart(joint))


def _never_again(value: Value, sizes: list[float]) -> bool:
    assert value.piece is not None
    read = sum(sizes[source.number] for source in value.reads)
    return (
        not value.piece.repeatable or value.fixed or _written_in_backward(value) or sizes[value.number] * SMALL < read
    )


def _written_in_backward(value: Value) -> bool:
    """Tell whether the backward pass reads it from memory, so that making it again would not save writing it."""
    if value.view:
        return False
    waiting = [value]
    while waiting:
        current = waiting.pop()
        for user in current.users:
            if not user.forward and not current.merges_into(user):
                return True
            if user.view:
                waiting.append(user)
    return False


def _used_far_apart(joint: Joint) -> set[Value]:
    """Return users of a value that come after a product has read what was made of it: no kernel serves them all."""
    apart: set[Value] = set()
    for value in joint:
        users = [user for user in value.users if user.forward]
        if not (value.forward or value.given) or not users:
            continue
        first = _first_unmerged(users)
        apart.update(user for user in users if user.number > first and value.merges_into(user))
    return apart


def _first_unmerged(users: list[Value]) -> int:
    last = max(user.number for user in users)
    waiting = [(user.number, user, True) for user in users]
    heapq.heapify(waiting)
    seen: set[tuple[int, bool]] = set()
    while waiting:
        number, value, merged = heapq.heappop(waiting)
        if not merged:
            return number
        if number > last:
            continue
        for user in value.users:
            key = (user.number, value.merges_into(user))
            if user.forward and key not in seen:
                seen.add(key)
                heapq.heappush(waiting, (user.number, user, key[1]))
    return last


def _long_chains(forward: list[Value], banned: set[Value]) -> set[Value]:
    """Add a value to those that are not made again wherever a chain of merged ops becomes long."""
    banned, visited = set(banned), set()
    for start in forward:
        waiting = [(start.number, start)]
        while waiting:
            _, current = heapq.heappop(waiting)
            if current in visited:
                continue
            visited.add(current)
            if current.number > start.number + LONG_CHAIN and not waiting:
                banned.add(current)
                break
            for user in current.users:
                if user.forward and current.merges_into(user) and user not in banned:
                    heapq.heappush(waiting, (user.number, user))
    return banned
