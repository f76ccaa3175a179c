"""Text that comes from a file or a name and goes to a terminal."""

import unicodedata


def printable(text: str) -> str:
    r"""The text with every character that could steer a terminal written out; line ends and tabs stay.

    >>> printable("cat\x1b[2J\n")
    'cat\\x1b[2J\n'
    """
    return "".join(
        c
        if c in "\n\t" or not unicodedata.category(c).startswith("C")
        else c.encode("unicode_escape", "surrogatepass").decode()
        for c in text
    )
