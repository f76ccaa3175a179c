"""Student's t distribution for any number of degrees of freedom, also a fractional one as Welch's.

P(|T| > t) = I(x; df/2, 1/2) with x = df / (df + t²), where I is the regularized incomplete beta function; the quantile
is found by bisection. Standard library only.
"""

import math


def incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function I(x; a, b), by its continued fraction (Lentz's method).

    >>> round(incomplete_beta(0.3, 1.0, 1.0), 12), round(incomplete_beta(0.5, 2.0, 2.0), 12)
    (0.3, 0.5)
    """
    if not 0 <= x <= 1:
        raise ValueError(f"x must be from 0 to 1, not {x}")
    if x in (0, 1):
        return float(x)
    if x > (a + 1) / (a + b + 2):  # the fraction converges quickly on the other side
        return 1 - incomplete_beta(1 - x, b, a)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    fraction, c, d = 1.0, 1.0, 0.0
    for k in range(1000):
        m = k // 2
        if k == 0:
            numerator = 1.0
        elif k % 2 == 0:
            numerator = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            numerator = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / _not_zero(1 + numerator * d)
        c = _not_zero(1 + numerator / c)
        fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return math.exp(log_front) * (fraction - 1) / a


def _not_zero(value: float) -> float:
    return value if abs(value) > 1e-300 else 1e-300


def two_sided(t: float, df: float) -> float:
    """The probability that |T| exceeds t.

    >>> round(two_sided(1.0, 1.0), 12)  # Cauchy: a half lies outside of ±1
    0.5
    """
    return incomplete_beta(df / (df + t * t), df / 2, 0.5)


def quantile(df: float, confidence: float = 0.95) -> float:
    """The half width of the interval that holds `confidence` of T, in units of the standard error.

    >>> [round(quantile(df), 3) for df in (1, 4, 19, 2.5)]
    [12.706, 2.776, 2.093, 3.575]
    """
    if df <= 0 or not 0 < confidence < 1:
        raise ValueError(f"no quantile for {df} degrees of freedom and a confidence of {confidence}")
    low, high = 0.0, 1.0
    while two_sided(high, df) > 1 - confidence:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, df) > 1 - confidence else (low, middle)
    return (low + high) / 2
