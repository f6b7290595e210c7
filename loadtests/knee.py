"""Where a curve of throughput against speed bends: beyond it, more load takes more from each than it adds. Pure."""

from collections.abc import Sequence


def knee(points: Sequence[tuple[float, float]]) -> int | None:
    """Of (speed of one, throughput of all) in the order of load: the place of the point that lies farthest above the
    line between the first and the last, both axes scaled to 1 (Satopaa et al. 2011, "Finding a kneedle in a haystack").
    None of fewer than three points, or where nothing changes.
    """
    if len(points) < 3:
        return None
    (most, least), (last, top) = points[0], points[-1]
    if most == last or top == least:
        return None
    heights = [(most - speed) / (last - most) + (through - least) / (top - least) for speed, through in points]
    return max(range(len(points)), key=lambda place: heights[place])
