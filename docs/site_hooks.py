"""What mkdocs needs to show our documents as they are.

A notebook becomes a page with its outputs. Pictures of committed results are taken from experiments/results. A link to
a file of the repository that is no page becomes that file's name.
"""

import json
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
RESULTS = "experiments/results"


def on_files(files: Files, config: Any) -> Files:
    """Add the pictures, and a page for each notebook."""
    for path in sorted((ROOT / RESULTS).rglob("*.png")):
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        files.remove(file)
        text = page_of(json.loads(Path(file.abs_src_path).read_text()))
        files.append(File.generated(config, file.src_uri.replace(".ipynb", ".md"), content=text))
    return files


def on_config(config: Any) -> Any:
    """The menu names the notebook itself, as it lies in the folder."""
    config.nav = _renamed(config.nav)
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Follow links out of the folder of documents."""
    folder = PurePosixPath("docs") / PurePosixPath(page.file.src_uri).parent

    def target(match: re.Match[str]) -> str:
        mark, text, link = match.groups()
        if link.endswith(".ipynb"):
            return f"{mark}[{text}]({link.replace('.ipynb', '.md')})"
        if not link.startswith("../"):
            return match[0]
        parts: list[str] = []
        for part in (folder / link).parts:
            parts = parts[:-1] if part == ".." else [*parts, part]
        path = "/".join(parts)
        if path.startswith("docs/"):
            return match[0]
        if mark or path.endswith(".png"):
            up = "../" * (len(folder.parts) - 1)
            return f"{mark}[{text}]({up}{path})"
        return text if text.strip("`") == path else f"{text} (`{path}`)"

    return re.sub(r"(!?)\[([^\]]*)\]\(([^)#\s]+)\)", target, markdown)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """The search of a site that is read from a folder needs a script that the theme would fetch from the network."""
    up = "../" * page.file.dest_uri.count("/")
    return output.replace("https://unpkg.com/iframe-worker/shim", f"{up}assets/iframe-worker.js")


def page_of(notebook: dict[str, Any]) -> str:
    """A notebook's text, code and printed outputs as Markdown.

    >>> cells = [{"cell_type": "code", "source": ["1 + 1"], "outputs": [{"data": {"text/plain": ["2"]}}]}]
    >>> "1 + 1" in page_of({"cells": cells})
    True
    """
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                parts.append(f"![output](data:image/png;base64,{''.join(data['image/png']).strip()})")
                continue
            text = "".join(output.get("text") or data.get("text/plain", []))
            if text.strip():
                parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def _renamed(nav: Any) -> Any:
    if isinstance(nav, list):
        return [_renamed(entry) for entry in nav]
    if isinstance(nav, dict):
        return {name: _renamed(entry) for name, entry in nav.items()}
    return nav.replace(".ipynb", ".md") if isinstance(nav, str) else nav
