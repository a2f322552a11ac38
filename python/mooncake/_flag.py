"""Parsers of the commands' flags. For a wrong value they raise `argparse.ArgumentTypeError` with the value."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable


def port(text: str) -> int:
    """A TCP port; 0 means any free port."""
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return int(text)


def seconds(text: str) -> float:
    """A finite number of seconds that is not negative."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return number


def whole_seconds(text: str) -> int:
    """A whole number of seconds, less than 2**32."""
    if not text.isdecimal() or int(text) >= 1 << 32:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of seconds")
    return int(text)


def count(most: int) -> Callable[[str], int]:
    """A parser of whole numbers from 1 to `most`."""

    def read(text: str) -> int:
        if not text.isdecimal() or not 0 < int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {most}")
        return int(text)

    return read


def definition(text: str) -> tuple[str, str]:
    """Key and value of `key=value`."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    return key, value
