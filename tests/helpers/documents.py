"""The documents of the project."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
DATA = ROOT / "tests" / "data"


def code_blocks(document, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / document).read_text(), flags=re.DOTALL)
