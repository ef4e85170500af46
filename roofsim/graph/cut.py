"""Find a minimum cut of a network: the edges of least capacity that part what is made from what is needed."""

from __future__ import annotations

from collections import deque
from math import inf


class FlowNetwork:
    """Nodes numbered from 0, edges with capacities; a cut parts the nodes that hang on the source from those on the sink.

    Dinic's algorithm: shortest augmenting paths, level by level.
    """

    def __init__(self, nodes: int) -> None:
        self.heads: list[int] = []
        self.left: list[float] = []
        self.edges: list[list[int]] = [[] for _ in range(nodes)]

    def connect(self, tail: int, head: int, capacity: float = inf) -> None:
        """Add an edge."""
        for start, end, size in ((tail, head, capacity), (head, tail, 0.0)):
            self.edges[start].append(len(self.heads))
            self.heads.append(end)
            self.left.append(size)

    def behind_the_cut(self, source: int, sink: int) -> list[bool]:
        """Return, for each node, whether it lies on the sink's side of the minimum cut that is nearest to the sink."""
        while (level := self._levels(source, sink))[sink] >= 0:
            places = [0] * len(self.edges)
            while self._augment(source, sink, level, places):
                pass
        return self._reaching(sink)

    def _levels(self, source: int, sink: int) -> list[int]:
        level = [-1] * len(self.edges)
        level[source] = 0
        waiting = deque([source])
        while waiting and level[sink] < 0:
            node = waiting.popleft()
            for edge in self.edges[node]:
                head = self.heads[edge]
                if level[head] < 0 and self.left[edge] > 0.0:
                    level[head] = level[node] + 1
                    waiting.append(head)
        return level

    def _augment(self, source: int, sink: int, level: list[int], places: list[int]) -> bool:
        """Send as much as one path of the level graph takes; without recursion, as paths are long."""
        path: list[int] = []
        node = source
        while node != sink:
            edges = self.edges[node]
            while places[node] < len(edges):
                edge = edges[places[node]]
                if self.left[edge] > 0.0 and level[self.heads[edge]] == level[node] + 1:
                    break
                places[node] += 1
            else:
                if not path:
                    return False
                node = self.heads[path.pop() ^ 1]
                places[node] += 1
                continue
            path.append(edge)
            node = self.heads[edge]
        sent = min(self.left[edge] for edge in path)
        for edge in path:
            self.left[edge] -= sent
            self.left[edge ^ 1] += sent
        return True

    def _reaching(self, sink: int) -> list[bool]:
        reaching = [False] * len(self.edges)
        reaching[sink] = True
        waiting = [sink]
        while waiting:
            node = waiting.pop()
            for edge in self.edges[node]:  # its reverse is the edge that enters the node
                tail = self.heads[edge]
                if not reaching[tail] and self.left[edge ^ 1] > 0.0:
                    reaching[tail] = True
                    waiting.append(tail)
        return reaching
