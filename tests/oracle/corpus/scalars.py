"""Numbers: arithmetic, comparison, conversion, builtins and `math`."""

import math
from typing import List, Tuple

from . import example


@example((7, 3), (-7, 3), (7, -3))
def divide_four_ways(a: int, b: int) -> Tuple[float, int, int, Tuple[int, int]]:
    return a / b, a // b, a % b, divmod(a, b)


@example((7.5, 2.0), (-7.5, 2.0))
def divide_floats(a: float, b: float) -> Tuple[float, float, float]:
    return a / b, a // b, a % b


@example((48, 36), (17, 5), (0, 9))
def greatest_common_divisor(a: int, b: int) -> int:
    while b != 0:
        a, b = b, a % b
    return a


@example((10,), (1,), (0,))
def fibonacci(n: int) -> int:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


@example((2.0, 5), (0.5, 3))
def power_by_squaring(base: float, exponent: int) -> float:
    result = 1.0
    while exponent > 0:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


@example((2.0,), (10.0,))
def newton_square_root(x: float) -> float:
    guess = x / 2.0
    for i in range(20):
        guess = 0.5 * (guess + x / guess)
    return guess


@example((0b1011,), (0,), (255,))
def count_bits(n: int) -> int:
    count = 0
    while n:
        n &= n - 1
        count += 1
    return count


@example((12, 10))
def bit_operators(a: int, b: int) -> List[int]:
    return [a & b, a | b, a ^ b, a << 2, a >> 1]


@example((5, 3), (-2, 8))
def augmented_integers(a: int, b: int) -> int:
    a += b
    a -= 1
    a *= 3
    a |= 8
    a ^= 3
    a <<= 1
    return a


@example((3.0,), (-1.5,))
def augmented_floats(x: float) -> float:
    x += 1
    x *= 2.0
    x /= 4
    x -= 0.25
    return x


@example((3, 4.0), (0, -1.0))
def mixed_arithmetic(n: int, x: float) -> float:
    return n * x + n - x / 2 + (n + 1) ** 2.0


@example((1, 2), (2, 2), (3, 2))
def compare_integers(a: int, b: int) -> Tuple[bool, bool, bool, bool, bool, bool]:
    return a < b, a <= b, a == b, a != b, a >= b, a > b


@example((1, 2.0), (2, 2.0))
def compare_mixed(a: int, b: float) -> List[bool]:
    return [a < b, a == b, b > a, a != b]


@example((5,), (15,), (10,))
def chained_comparison(x: int) -> bool:
    return 0 < x <= 10 and not 3 < x < 5


@example((3, 9, 5), (9, 3, 5))
def smallest_and_largest(a: int, b: int, c: int) -> Tuple[int, int]:
    return min(a, min(b, c)), max(max(a, b), c)


@example(([3, 1, 2],))
def reduce_builtins(xs: List[int]) -> Tuple[int, int, int]:
    return min(xs), max(xs), sum(xs)


@example((-3, -2.5), (4, 0.0))
def absolute_values(n: int, x: float) -> Tuple[int, float]:
    return abs(n), abs(x)


@example((2.7,), (-2.7,), (0.0,))
def conversions_from_float(x: float) -> Tuple[int, bool, str]:
    return int(x), bool(x), str(int(x))


@example((3,), (0,), (-1,))
def conversions_from_int(n: int) -> Tuple[float, bool, str, complex]:
    return float(n), bool(n), str(n), complex(n)


@example(("42", "2.5"))
def conversions_from_string(n: str, x: str) -> float:
    return int(n) + float(x)


@example((2.5,), (-0.3,))
def rounding_down_and_up(x: float) -> Tuple[int, int]:
    return math.floor(x), math.ceil(x)


@example((0.3,), (0.9,))
def trigonometry(x: float) -> float:
    return math.sin(x) ** 2 + math.cos(x) ** 2 + math.tan(x) * math.atan2(x, 1.0)


@example((4.0,))
def exponentials(x: float) -> Tuple[float, float, float, float]:
    return math.exp(x), math.log(x), math.sqrt(x), math.pow(x, 0.5)


@example((1.5,))
def constants_of_math(r: float) -> float:
    return math.pi * r * r + math.e


@example((float("inf"),), (float("nan"),), (1.0,))
def special_floats(x: float) -> Tuple[bool, bool, bool]:
    return math.isinf(x), math.isnan(x), math.isfinite(x)


@example((30,), (-45,))
def degrees_and_radians(d: int) -> float:
    return math.degrees(math.radians(d) + math.fabs(0.5) + math.copysign(1.0, d))


@example((5,))
def factorial_of_math(n: int) -> int:
    return math.factorial(n) + math.gcd(n, 10)


@example((1 + 2j, 3 - 1j))
def complex_arithmetic(a: complex, b: complex) -> Tuple[complex, complex, complex, float]:
    return a + b, a * b, a - b, abs(a)


@example((3.0, 4.0))
def complex_parts(x: float, y: float) -> Tuple[complex, float]:
    z = complex(x, y)
    return z * 1j, abs(z)


@example((True, False), (False, False), (True, True))
def boolean_operators(p: bool, q: bool) -> Tuple[bool, bool, bool, bool]:
    return p and q, p or q, not p, p != q


@example((2000,), (1900,), (2024,), (2023,))
def is_leap_year(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


@example((97,), (91,), (1,))
def is_prime(n: int) -> bool:
    if n < 2:
        return False
    divisor = 2
    while divisor * divisor <= n:
        if n % divisor == 0:
            return False
        divisor += 1
    return True


@example((27,), (1,))
def collatz_steps(n: int) -> int:
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@example((1_000_000, 0x1F, 0b101, 0o17))
def literals(a: int, b: int, c: int, d: int) -> Tuple[bool, bool, float]:
    return a == 1_000_000, b + c + d == 0x1F + 0b101 + 0o17, 1e-3 + 2.5e2 + 0.5


@example((-5,), (5,), (0,))
def sign(n: int) -> int:
    return -1 if n < 0 else (1 if n > 0 else 0)


@example((5, 2))
def unary_operators(a: int, b: int) -> Tuple[int, bool, bool]:
    return -a - -b, not a > b, not not a


@example((10,), (0,))
def harmonic(n: int) -> float:
    total = 0.0
    for k in range(1, n + 1):
        total += 1 / k
    return total


@example((100.0, 0.05, 3))
def compound_interest(amount: float, rate: float, years: int) -> float:
    for _ in range(years):
        amount = amount * (1 + rate)
    return amount
