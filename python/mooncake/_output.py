"""Prints the output of commands. If the reader has closed the pipe, as `head` does, that is no error."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

__all__ = ["Parser", "say"]


def say(text: str) -> None:
    """Writes a line to standard output, and flushes it."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # The interpreter flushes the buffer again when it ends. That flush must not fail too.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


class Parser(argparse.ArgumentParser):
    """An ArgumentParser for which a reader that closes the pipe during the help is no error."""

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        if file is None:
            say(self.format_help().rstrip("\n"))
        else:
            super().print_help(file)
