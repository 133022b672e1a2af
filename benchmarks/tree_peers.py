"""Other ways to pair the nodes of two trees, written small: the ideas of other tools, and exact edit distance.

Each takes two trees of `mutated_runs.Piece` and returns pairs of uids. They are peers of `align_quality.py`, no more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence

from mutated_runs import Piece

Pairs = list[tuple[int, int]]


def path_sets(a: Piece, b: Piece) -> Pairs:
    """Jaeger's idea: nodes with the same path of names are the same; here paired in their order."""
    return _buckets(_paths(a), _paths(b))


def name_buckets(a: Piece, b: Piece) -> Pairs:
    """Tempo's idea: greedy by kind and name, a parent that is paired alike breaks ties."""
    parent_a, parent_b = _parents(a), _parents(b)
    waiting: dict[Hashable, list[Piece]] = defaultdict(list)
    for node in b.all():
        waiting[_label(node)].append(node)
    paired: dict[int, int] = {}
    for node in a.all():
        candidates = waiting[_label(node)]
        if not candidates:
            continue
        wanted = paired.get(parent_a.get(node.uid, 0))
        best = next((one for one in candidates if parent_b.get(one.uid, 0) == wanted), candidates[0])
        candidates.remove(best)
        paired[node.uid] = best.uid
    return list(paired.items())


def occurrence_among_siblings(a: Piece, b: Piece) -> Pairs:
    """Kind, name and number among the siblings, from the root down."""
    pairs: Pairs = []
    queue = [(a, b)]
    while queue:
        one, other = queue.pop()
        pairs.append((one.uid, other.uid))
        there = dict(_numbered(other.children))
        queue += [(child, there[key]) for key, child in _numbered(one.children) if key in there]
    return pairs


def flat_lcs(a: Piece, b: Piece) -> Pairs:
    """Longest common subsequence of the labels in preorder."""
    return _lcs(list(a.all()), list(b.all()), [_label])


def flat_lcs_payload_first(a: Piece, b: Piece) -> Pairs:
    """The same, first over label and payload, then over labels in the gaps."""
    return _lcs(list(a.all()), list(b.all()), [lambda node: (*_label(node), node.asks, node.answers), _label])


def edit_distance(a: Piece, b: Piece) -> Pairs:
    """Zhang and Shasha's exact tree edit distance with unit costs over labels and payloads, and one of its mappings."""
    one, other = _Postorder(a), _Postorder(b)
    distance = [[0] * len(other.nodes) for _ in one.nodes]
    for i in one.keyroots:
        for j in other.keyroots:
            _forest(one, other, i, j, distance)
    pairs: Pairs = []
    trees = [(len(one.nodes) - 1, len(other.nodes) - 1)]
    while trees:
        _trace(one, other, *trees.pop(), distance, pairs, trees)
    return pairs


class _Postorder:
    def __init__(self, root: Piece) -> None:
        self.nodes: list[Piece] = []
        self.leftmost: list[int] = []
        self._walk(root)
        last = {left: index for index, left in enumerate(self.leftmost)}
        self.keyroots = sorted(last.values())

    def _walk(self, node: Piece) -> int:
        lefts = [self._walk(child) for child in node.children]
        left = lefts[0] if lefts else len(self.nodes)
        self.nodes.append(node)
        self.leftmost.append(left)
        return left


def _cost(one: Piece, other: Piece) -> int:
    return int(_label(one) != _label(other)) + int((one.asks, one.answers) != (other.asks, other.answers))


def _forest(one: _Postorder, other: _Postorder, i: int, j: int, distance: list[list[int]]) -> list[list[int]]:
    low_i, low_j = one.leftmost[i], other.leftmost[j]
    rows, columns = i - low_i + 2, j - low_j + 2
    table = [[0] * columns for _ in range(rows)]
    for x in range(1, rows):
        table[x][0] = x
    table[0] = list(range(columns))
    for x in range(1, rows):
        left_x = one.leftmost[low_i + x - 1]
        above, row = table[x - 1], table[x]
        for y in range(1, columns):
            left_y = other.leftmost[low_j + y - 1]
            best = min(above[y], row[y - 1]) + 1
            if left_x == low_i and left_y == low_j:
                best = min(best, above[y - 1] + _cost(one.nodes[low_i + x - 1], other.nodes[low_j + y - 1]))
                distance[low_i + x - 1][low_j + y - 1] = best
            else:
                inner = distance[low_i + x - 1][low_j + y - 1]
                best = min(best, table[left_x - low_i][left_y - low_j] + inner)
            row[y] = best
    return table


def _trace(
    one: _Postorder,
    other: _Postorder,
    i: int,
    j: int,
    distance: list[list[int]],
    pairs: Pairs,
    trees: list[tuple[int, int]],
) -> None:
    low_i, low_j = one.leftmost[i], other.leftmost[j]
    table = _forest(one, other, i, j, distance)
    x, y = i - low_i + 1, j - low_j + 1
    while x and y:
        left_x, left_y = one.leftmost[low_i + x - 1], other.leftmost[low_j + y - 1]
        if table[x][y] == table[x - 1][y] + 1:
            x -= 1
        elif table[x][y] == table[x][y - 1] + 1:
            y -= 1
        elif left_x == low_i and left_y == low_j:
            pairs.append((one.nodes[low_i + x - 1].uid, other.nodes[low_j + y - 1].uid))
            x, y = x - 1, y - 1
        else:
            trees.append((low_i + x - 1, low_j + y - 1))
            x, y = left_x - low_i, left_y - low_j


def _label(node: Piece) -> tuple[str, str]:
    return node.kind.value, node.name


def _numbered(nodes: Sequence[Piece]) -> Iterator[tuple[Hashable, Piece]]:
    seen: dict[Hashable, int] = defaultdict(int)
    for node in nodes:
        yield (_label(node), seen[_label(node)]), node
        seen[_label(node)] += 1


def _paths(root: Piece) -> list[tuple[Hashable, int]]:
    found: list[tuple[Hashable, int]] = []
    stack: list[tuple[Piece, tuple[tuple[str, str], ...]]] = [(root, ())]
    while stack:
        node, above = stack.pop()
        path = (*above, _label(node))
        found.append((path, node.uid))
        stack += [(child, path) for child in reversed(node.children)]
    return found


def _buckets(left: Sequence[tuple[Hashable, int]], right: Sequence[tuple[Hashable, int]]) -> Pairs:
    waiting: dict[Hashable, list[int]] = defaultdict(list)
    for key, uid in reversed(right):
        waiting[key].append(uid)
    return [(uid, waiting[key].pop()) for key, uid in left if waiting[key]]


def _parents(root: Piece) -> dict[int, int]:
    return {child.uid: node.uid for node in root.all() for child in node.children}


def _lcs(left: list[Piece], right: list[Piece], layers: Sequence[object]) -> Pairs:
    from otel_agent_replay.compare.sequence_alignment import align_sequences

    numbers: dict[Hashable, int] = {}
    keys = [
        tuple([numbers.setdefault((place, layer(node)), len(numbers)) for node in nodes] for nodes in (left, right))  # type: ignore[operator]
        for place, layer in enumerate(layers)
    ]
    matches = align_sequences(keys).matches  # type: ignore[arg-type]
    return [(left[match.left].uid, right[match.right].uid) for match in matches]
