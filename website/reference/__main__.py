"""Writes the pages of the reference anew."""

import sys
from pathlib import Path

from reference.pages import FOLDER, pages

# The programs are installed beside the Python that runs this; another folder may be named.
programs = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(sys.executable).parent
FOLDER.mkdir(exist_ok=True)
for name, text in pages(programs).items():
    (FOLDER / name).write_text(text)
    print(f"docs/reference/{name}: {text.count(chr(10))} lines")
