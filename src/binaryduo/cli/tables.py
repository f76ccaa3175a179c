"""Tables that fit 80 columns: nothing is cut off with "…", and names that people type stay in one piece."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


def new_table(
    *headings: str, names: int = 1, title: str | None = None, right: tuple[str, ...] = ()
) -> "Table":
    """An empty table; the first `names` columns are never broken, the others wrap; those in `right` are numbers.

    >>> table = new_table("name", "what", "images", right=("images",))
    >>> [(column.no_wrap, column.overflow, column.justify) for column in table.columns]
    [(True, 'fold', 'left'), (False, 'fold', 'left'), (False, 'fold', 'right')]
    """
    from rich.table import Table
    from rich.text import Text

    shown = None if title is None else Text(title)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, title=shown, title_justify="left")
    for place, heading in enumerate(headings):
        table.add_column(
            heading,
            justify="right" if heading in right else "left",
            no_wrap=place < names,
            min_width=max(map(len, heading.split()), default=0),
            overflow="fold",
        )
    return table
