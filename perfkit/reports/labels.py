"""Where to put labels so that they overlap neither each other nor what is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

Point = tuple[float, float]
_GAP = 5.0  # pixels between a point and the label beside it
LEADER = 9.0  # pixels from which on a line leads from a label to its point
_ROUNDS = 3
_COLUMN = 8  # half rows of a column beside a point, up and down
_STEPS = (0.0, 12.0, 26.0, 44.0, 66.0, 92.0, 122.0, 156.0)
# Directions in order of preference: right, left, above, below, then the diagonals.
_ANGLES = (0, 180, 90, 270, 45, 135, 315, 225, 22, 158, 338, 202)


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in pixels."""

    x0: float
    y0: float
    x1: float
    y1: float

    def overlap(self, other: Box) -> float:
        """Area shared with `other`."""
        width = min(self.x1, other.x1) - max(self.x0, other.x0)
        height = min(self.y1, other.y1) - max(self.y0, other.y0)
        return width * height if width > 0 and height > 0 else 0.0

    def distance(self, point: Point) -> float:
        """From `point` to the nearest edge, 0 inside."""
        dx = max(self.x0 - point[0], 0.0, point[0] - self.x1)
        dy = max(self.y0 - point[1], 0.0, point[1] - self.y1)
        return math.hypot(dx, dy)

    def holds(self, point: Point) -> bool:
        """Whether `point` is inside."""
        return self.x0 <= point[0] <= self.x1 and self.y0 <= point[1] <= self.y1

    def crossed_by(self, a: Point, b: Point) -> bool:
        """Whether the segment from a to b goes through the box (Liang-Barsky clipping)."""
        start, end = 0.0, 1.0
        for origin, delta, low, high in (
            (a[0], b[0] - a[0], self.x0, self.x1),
            (a[1], b[1] - a[1], self.y0, self.y1),
        ):
            if delta == 0:
                if not low <= origin <= high:
                    return False
                continue
            first, second = sorted(((low - origin) / delta, (high - origin) / delta))
            start, end = max(start, first), min(end, second)
        return start <= end


def place(
    anchors: Sequence[Point],
    sizes: Sequence[tuple[float, float]],
    obstacles: Sequence[Box],
    lines: Sequence[tuple[Point, Point]],
    area: Box,
) -> list[Box]:
    """A box for each label, from the most crowded anchor on; sizes are (width, height) in pixels.

    The best of a ring of candidates is taken: no overlap first, then not over a line, then near. Where all
    overlap, the least bad one is.
    """
    taken = obstacles
    placed: dict[int, Box] = {}
    crowded = sorted(range(len(anchors)), key=lambda index: -_neighbours(anchors, index))
    # The first go is greedy; the later ones move each label once more, now that the others have their places.
    for _ in range(_ROUNDS):
        before = dict(placed)
        for index in crowded:
            others = [box for other, box in placed.items() if other != index]
            leaders = [(anchors[other], _middle(box)) for other, box in placed.items() if other != index]
            placed[index] = _cheapest(
                _candidates(anchors[index], sizes[index]),
                partial(
                    _cost,
                    anchor=anchors[index],
                    anchors=anchors,
                    taken=[*taken, *others],
                    lines=[*lines, *leaders],
                    area=area,
                ),
            )
        if placed == before:
            break
    return [placed[index] for index in range(len(anchors))]


def _cheapest(candidates: Iterable[tuple[Box, float]], cost: Callable[[tuple[Box, float]], float]) -> Box:
    """The box of the candidate that costs least; one costs at least its penalty, so most are never tried."""
    best, least = None, math.inf
    for candidate in sorted(candidates, key=lambda item: item[1]):
        if candidate[1] >= least:
            break
        if (costs := cost(candidate)) < least:
            best, least = candidate[0], costs
    assert best is not None  # there are always candidates
    return best


def _middle(box: Box) -> Point:
    return (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2


def _neighbours(anchors: Sequence[Point], index: int) -> int:
    x, y = anchors[index]
    return sum(1 for other in anchors if math.hypot(other[0] - x, other[1] - y) < 40)


def _candidates(anchor: Point, size: tuple[float, float]) -> Iterator[tuple[Box, float]]:
    """(box, distance penalty) around the anchor."""
    width, height = size
    for step in _STEPS:
        for rank, angle in enumerate(_ANGLES):
            dx, dy = math.cos(math.radians(angle)), math.sin(math.radians(angle))
            x = anchor[0] + dx * (width / 2 + _GAP + step)
            y = anchor[1] + dy * (height / 2 + _GAP + step)
            box = Box(x - width / 2, y - height / 2, x + width / 2, y + height / 2)
            yield box, step + rank * 0.3
    # Names of points that stand above each other fit in a column beside them, each with a line to its point.
    for side in (1, -1):
        for out in (12.0, 24.0):
            x = anchor[0] + side * (width / 2 + _GAP + out)
            for row in range(-_COLUMN, _COLUMN + 1):
                y = anchor[1] + row * height / 2
                box = Box(x - width / 2, y - height / 2, x + width / 2, y + height / 2)
                yield box, out + abs(row) * height / 3 + (side < 0)


def _cost(
    candidate: tuple[Box, float],
    anchor: Point,
    anchors: Sequence[Point],
    taken: Sequence[Box],
    lines: Sequence[tuple[Point, Point]],
    area: Box,
) -> float:
    box, penalty = candidate
    middle = _middle(box)
    covered = [shared for other in taken if (shared := box.overlap(other))]
    whole = (box.x1 - box.x0) * (box.y1 - box.y0)
    outside = whole - box.overlap(area)
    crossed = sum(100.0 for a, b in lines if box.crossed_by(a, b))
    # The thin line from a far label to its point should not run through other things either.
    crossed += sum(40.0 for a, b in lines if _intersect(anchor, middle, a, b))
    crossed += sum(40.0 for other in taken if not other.holds(anchor) and other.crossed_by(anchor, middle))
    # Nearer to another point it would be read as that one's name.
    own = box.distance(anchor)
    # ... unless a line leads to its own.
    theft = 40.0 if own < LEADER else 18.0
    stolen = sum(theft for other in anchors if other != anchor and box.distance(other) < own + 3)
    return 150.0 * len(covered) + 10.0 * sum(covered) + 20.0 * outside + crossed + stolen + penalty


def _intersect(a: Point, b: Point, c: Point, d: Point) -> bool:
    """Whether the segments a-b and c-d cross."""

    def side(p: Point, q: Point, r: Point) -> float:
        return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])

    return side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0
