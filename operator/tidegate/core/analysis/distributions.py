"""The few distributions that a verdict needs, without a numeric library."""

import math
from statistics import NormalDist

_NORMAL = NormalDist()
_SMALLEST = 1e-300
_STEPS = 300
_CLOSE = 1e-13


def normal_quantile(share: float) -> float:
    """Return the z that a standard normal value is below in this share of cases (0 < share < 1)."""
    return _NORMAL.inv_cdf(share)


def normal_cdf(z: float) -> float:
    """Return the chance that a standard normal value is at most `z`."""
    return _NORMAL.cdf(z)


def student_tail(t: float, degrees: float) -> float:
    """Return the chance that Student's t with these degrees of freedom exceeds `t`."""
    if degrees <= 0:
        return 0.5 if t == 0 else float(t < 0)
    both = beta_share(degrees / 2, 0.5, degrees / (degrees + t * t))
    return both / 2 if t >= 0 else 1 - both / 2


def normal_equivalent(t: float, degrees: float) -> float:
    """Return the z that is as unlikely as this t, so that few degrees of freedom weigh less."""
    tail = student_tail(abs(t), degrees)
    z = -normal_quantile(min(0.5, max(tail, _SMALLEST)))
    return z if t >= 0 else -z


def beta_share(a: float, b: float, x: float) -> float:
    """Return the regularized incomplete beta function I_x(a, b), by its continued fraction."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    log_front = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    front = math.exp(log_front)
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function (Lentz's method)."""
    c, d = 1.0, 1 / _off_zero(1 - (a + b) * x / (a + 1))
    result = d
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _off_zero(1 + term * d)
            c = _off_zero(1 + term / c)
            result *= c * d
        if abs(c * d - 1) < _CLOSE:
            break
    return result


def _off_zero(value: float) -> float:
    return value if abs(value) > _SMALLEST else _SMALLEST
