"""Examples of docstrings as code: a paragraph that begins with `>>>` is put between fences for the API reference."""

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


class Doctests(griffe.Extension):
    """Changes the text of docstrings as they are read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every object of the package."""
        if obj.docstring is not None and ">>> " in obj.docstring.value:
            obj.docstring.value = EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
