"""The documents of the repository, and what stands in them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DESIGN = ROOT / "docs" / "DESIGN.md"
PAGES = sorted([README, ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")])


def blocks(text, language):
    """The fenced blocks of exactly this info string."""
    fenced = re.findall(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for info, block in fenced if info == language]


def without_blocks(text):
    """The text without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def commands(text):
    """The command lines of console blocks, without their comments."""
    return [
        line.removeprefix("$ ").partition("  #")[0].strip()
        for block in blocks(text, "console")
        for line in block.splitlines()
        if line.startswith("$ ")
    ]


def sections(text):
    """The text of each section of the second level, by its heading."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows(text):
    """The cells of all table rows but the heads."""
    lines = [line for line in text.splitlines() if line.startswith("|") and not line.startswith("| ---")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
