"""Numbers within bounds and on steps, exactly. Knows nothing of schemas' documents."""

from fractions import Fraction
from math import ceil, floor, lcm

from workers.content.draws import Draws
from workers.content.instances.needs import Dead, Need

Number = int | float
_COARSE = 8  # a range as wide as that is drawn from in whole numbers
_REACH = 10  # steps from a bound, where nothing says how far to go


def drawn(draws: Draws, need: Need, integer: bool, usual: tuple[float, float]) -> Number:
    """Of the usual range where that is possible. Raises Dead."""
    step = _step(need, integer)
    low, high = usual
    for first, last in _windows(need, Fraction(str(low)), Fraction(str(high)), step or Fraction(1)):
        number = _on_steps(draws, need, first, last, step) if step else _between(draws, need, first, last)
        if number is not None:
            return _plain(number)
    raise Dead("its bounds leave no number")


def fits(number: Number, need: Need, integer: bool) -> bool:
    exact = Fraction(str(number)) if isinstance(number, float) else Fraction(number)
    step = _step(need, integer)
    return _within(exact, need) and (step is None or (exact / step).denominator == 1)


def _step(need: Need, integer: bool) -> Fraction | None:
    step = Fraction(1) if integer else None
    for each in need.steps:
        if each <= 0:
            raise Dead("multipleOf is not positive")
        step = each if step is None else Fraction(
            lcm(step.numerator * each.denominator, each.numerator * step.denominator),
            step.denominator * each.denominator,
        )  # fmt: skip
    return step


def _windows(need: Need, low: Fraction, high: Fraction, step: Fraction) -> list[tuple[Fraction, Fraction]]:
    """Ranges to look in: the usual one as far as it is allowed, then what is near to a bound, then all."""
    least, most = need.low, need.high
    usual = (low if least is None else max(low, least), high if most is None else min(high, most))
    reach = _REACH * max(step, Fraction(1))
    if least is not None:
        near = (least, least + reach if most is None else min(most, least + reach))
    elif most is not None:
        near = (most - reach, most)
    else:
        near = (-reach, reach)
    return [
        usual,
        near,
        (near[0] if least is None else least, near[1] if most is None else most),
        (low, low + 2 * step),
    ]


def _on_steps(draws: Draws, need: Need, first: Fraction, last: Fraction, step: Fraction) -> Fraction | None:
    low, high = ceil(first / step), floor(last / step)
    low += need.low_open and low * step == need.low
    high -= need.high_open and high * step == need.high
    return draws.between(low, high) * step if low <= high else None


def _between(draws: Draws, need: Need, first: Fraction, last: Fraction) -> Fraction | None:
    if first > last:
        return None
    width = last - first
    at = first + width * Fraction(str(round(draws.share(), 4)))
    for digits in (0 if width >= _COARSE else 1, 2, 4, 8, 15):
        rounded = round(at, digits)
        if _within(rounded, need) and first <= rounded <= last:
            return rounded
    middle = Fraction(float(first + width / 2))
    return middle if _within(middle, need) else None


def _within(number: Fraction, need: Need) -> bool:
    low = need.low is None or number > need.low or (number == need.low and not need.low_open)
    return low and (need.high is None or number < need.high or (number == need.high and not need.high_open))


def _plain(number: Fraction) -> Number:
    if number.denominator == 1:
        return int(number)
    try:
        return float(number)
    except OverflowError:
        raise Dead("its bounds are beyond every number") from None
