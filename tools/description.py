"""The README as a package's page shows it, where no file stands beside it.

Links into the repository become links to it where CUDML_REPOSITORY_URL names it; otherwise their
text stays and figures go, so that no link leads nowhere.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def address() -> str:
    """The repository's, or nothing."""
    return os.environ.get("CUDML_REPOSITORY_URL", "").rstrip("/")


def description(repository: str) -> str:
    """README.md with links that work anywhere."""

    def anywhere(link: re.Match[str]) -> str:
        mark, text, target, place = link[1], link[2], link[3], link[4] or ""
        if "://" in target:
            return link[0]
        if repository:
            kind = "raw" if mark else "blob"
            return f"{mark}[{text}]({repository}/{kind}/main/{target}{place})"
        return "" if mark else text

    text = LINK.sub(anywhere, (ROOT / "README.md").read_text(encoding="utf-8"))
    return re.sub(r"\n{3,}", "\n\n", text)


def project_urls(repository: str) -> dict[str, str]:
    """What the package's page links to beside its text."""
    if not repository:
        return {}
    pages = {"Documentation": "docs/semantics.md", "Changelog": "CHANGELOG.md"}
    links = {name: f"{repository}/blob/main/{page}" for name, page in pages.items()}
    return {"Source": repository, **links}
