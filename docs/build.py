"""Build the documentation site in `build/site`, and check every link in it.

    python docs/build.py

The pages are the documents of this repository at their own paths, so that links work here and there. Whatever a page links to
comes along: results, pictures, source files. Formulas become MathML, and the site needs no network. The Markdown of each page
lies beside it, and `llms.txt` lists the pages for language models.
"""

import html
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import latex2mathml.converter
import yaml

from mpnp.cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
PAGES, SITE = ROOT / "build" / "pages", ROOT / "build" / "site"
COMMANDS_PAGE = "docs/commands.md"


LINK = re.compile(r"!?\[[^\]]*\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', flags=re.DOTALL)

FOLDER = re.compile(r'href="(\.|(?:\./)?\.\.(?:/\.\.)*)"')
"""A link to the home page as a folder, which works on a server but not from disk."""


def main() -> None:
    """Gather the pages, build the site, finish its files, and check it."""
    for folder in (PAGES, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    gather([page for page in pages(navigation()) if page != COMMANDS_PAGE])
    (PAGES / COMMANDS_PAGE).write_text(commands_page())
    build()
    for page in SITE.rglob("*.html"):
        text = FORMULA.sub(to_mathml, page.read_text())
        page.write_text(FOLDER.sub(r'href="\1/index.html"', text))
    for page in PAGES.rglob("*.md"):
        shutil.copy(page, SITE / page.relative_to(PAGES))
    shutil.copy(ROOT / "llms.txt", SITE)
    if dead := sorted(dead_links()):
        sys.exit("these links lead nowhere:\n" + "\n".join(dead))
    print(f"built {sum(1 for _ in SITE.rglob('*.html'))} pages: {SITE / 'index.html'}")
    print(f"its search needs a server, such as: python -m http.server --directory {SITE.relative_to(ROOT)}")


def navigation() -> list:
    """The part of `mkdocs.yml` that lists the pages. Its tags of Python names are none of our business."""
    text = (ROOT / "mkdocs.yml").read_text()
    return yaml.safe_load(re.sub(r"!!python/name:\S+", "null", text))["nav"]


def pages(entries: list) -> Iterator[str]:
    """Paths of all pages in the navigation."""
    for entry in entries:
        for content in entry.values():
            yield from [content] if isinstance(content, str) else pages(content)


def gather(paths: list[str]) -> None:
    """Copy documents, and everything they link to, to the same paths below the folder of pages."""
    waiting, seen = [ROOT / path for path in paths], set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        goal = PAGES / path.relative_to(ROOT)
        goal.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            text, targets = with_pages_for_folders(path)
            goal.write_text(text)
            waiting += targets
        else:
            shutil.copy(path, goal)


def with_pages_for_folders(path: Path) -> tuple[str, list[Path]]:
    """A document whose links to folders lead to their README, or to a list of their files; and what it links to."""
    text = path.read_text() if path.is_file() else listing(path.parent)
    targets = []
    for link in {link for link in LINK.findall(text) if "://" not in link}:
        target = Path(os.path.normpath(path.parent / link))
        if target.is_dir():
            text, target = text.replace(f"]({link})", f"]({link}/README.md)"), target / "README.md"
        targets.append(target)
    return text, targets


def listing(folder: Path) -> str:
    """A page that names what a folder holds."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [f"- [{path.relative_to(folder)}]({path.relative_to(folder)})" for path in files]
    return "\n".join([f"# Files of {folder.relative_to(ROOT)}\n", *lines, ""])


def commands_page() -> str:
    """What every command says with `--help`."""
    parts = ["# Commands\n"]
    for name in ("", *COMMANDS):
        command = [sys.executable, "-m", "mpnp", *name.split(), "--help"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"COLUMNS": "110"})
        parts.append(f"## mpnp {name}\n\n```text\n{done.stdout.replace('python -m mpnp', 'mpnp').strip()}\n```\n")
    return "\n".join(parts)


def build() -> None:
    """Run Zensical, which stops at warnings."""
    tool = Path(sys.executable).with_name("zensical")
    done = subprocess.run([tool, "build", "--strict", "--clean"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode or "Warning" in done.stdout + done.stderr:
        said = re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr)
        sys.exit(said.partition("Traceback")[0])


def to_mathml(found: re.Match[str]) -> str:
    """A formula as MathML, which browsers show without scripts."""
    display = "inline" if found[2] == "(" else "block"
    return latex2mathml.converter.convert(html.unescape(found[3]), display=display)


def dead_links() -> Iterator[str]:
    """Links of the site to files or places that it does not have."""
    texts = {page: page.read_text() for page in SITE.rglob("*.html") if page.name != "404.html"}
    places = {page: set(re.findall(r'\b(?:id|name)="?([^"\s>]+)', text)) for page, text in texts.items()}
    for page, text in texts.items():
        for link in re.findall(r'\b(?:href|src)="([^"]*)"', text):
            target, _, place = html.unescape(link).partition("#")
            if re.match(r"\w+:", target):
                continue
            goal = page if not target else Path(os.path.normpath(page.parent / unquote(target)))
            if not goal.is_file() or (place and goal in places and unquote(place) not in places[goal]):
                yield f"{page.relative_to(SITE)}: {link}"


if __name__ == "__main__":
    main()
