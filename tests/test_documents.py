"""What the documents show must run: every Python block of README and docs, in one namespace a file."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
WITH_CODE = [p for p in DOCUMENTS if "```python" in p.read_text()]


@pytest.mark.parametrize("path", WITH_CODE, ids=lambda p: p.name)
def test_python_blocks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": path.stem}  # torch.fx asks classes for their module
    for block in re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL):
        exec(compile(block, path.name, "exec"), namespace)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_the_citation_is_of_the_paper() -> None:
    import yaml

    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())["preferred-citation"]
    assert cited["title"] in " ".join((ROOT / "README.md").read_text().split())
    assert [author["given-names"] for author in cited["authors"]] == [
        *("Hyungjun", "Kyungsu", "Jinseok", "Jae-Joon")
    ]


def test_the_version_has_one_source() -> None:
    import binaryduo

    assert f"## {binaryduo.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert 'dynamic = ["version"]' in (ROOT / "pyproject.toml").read_text()
