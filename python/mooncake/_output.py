"""What the commands print. A reader that has gone, as `head` does when it has seen enough, is no fault."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

__all__ = ["Parser", "say"]


def say(text: str) -> None:
    """Writes a line to standard output, at once."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # What is still in the buffer must not fail once more when the interpreter ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


class Parser(argparse.ArgumentParser):
    """As its base; a reader that closes the pipe before the end of the help is no error."""

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        if file is None:
            say(self.format_help().rstrip("\n"))
        else:
            super().print_help(file)
