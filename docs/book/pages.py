"""Preprocessor of mdBook: makes pages of the repository into pages of the site.

Pages from outside of docs get a place in the site, links between pages follow, links to other files of the
repository become their paths, and code of the library guide is marked as Rust, which rustdoc does by itself.
"""

import json
import os
import re
import sys

DOCS = os.path.abspath("..")
ROOT = os.path.dirname(DOCS)
GUIDE = os.path.join(ROOT, "crates/mcp-flow/guide")

# A fenced block, a code span or a link, whichever begins first.
PARTS = re.compile(
    r"(?P<fence>^(?P<ticks>```+)(?P<info>[^\n]*)$.*?^(?P=ticks)[ ]*$)"
    r"|(?P<span>(?P<quote>`+)(?!`).*?(?<!`)(?P=quote)(?!`))"
    r"|\[(?P<label>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^()\s]+)\)",
    re.MULTILINE | re.DOTALL,
)


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    _, book = json.load(sys.stdin)
    chapters = [chapter for chapter in walk(book["items"]) if chapter["path"]]
    pages = {source(chapter): place(source(chapter)) for chapter in chapters}
    for chapter in chapters:
        file = source(chapter)
        chapter["path"] = pages[file]
        chapter["content"] = PARTS.sub(lambda part: rewrite(part, file, pages), chapter["content"])
    json.dump(book, sys.stdout)


def walk(items):
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            yield item["Chapter"]
            yield from walk(item["Chapter"]["sub_items"])


def source(chapter):
    return os.path.normpath(os.path.join(DOCS, chapter["source_path"]))


def place(file):
    """Returns the path of a page in the site."""
    if file == os.path.join(DOCS, "README.md"):
        return "contents.md"
    if file.startswith(DOCS + os.sep):
        return os.path.relpath(file, DOCS)
    if file.startswith(GUIDE + os.sep):
        return os.path.join("guide", os.path.basename(file))
    name = os.path.relpath(file, ROOT).lower()
    return "introduction.md" if name == "readme.md" else name.replace("/readme.md", ".md")


def rewrite(part, file, pages):
    in_guide = file.startswith(GUIDE)
    if part["fence"]:
        is_rust = in_guide and part["info"] in ("", "no_run", "ignore", "should_panic", "compile_fail")
        return part[0].replace("```", "```rust,", 1) if is_rust else part[0]
    if part["span"]:
        return part[0]
    label, (target, _, anchor) = part["label"], part["target"].partition("#")
    if re.match(r"[a-z]+:(?!:)", part["target"]) or not target:
        return part[0]
    if in_guide and re.match(r"(crate|super)\b", target):
        found = os.path.join(GUIDE, target.split("::")[-1] + ".md")
        if target.split("::")[-2:-1] not in (["guide"], ["super"]):
            return label
    else:
        found = os.path.normpath(os.path.join(os.path.dirname(file), target))
    if os.path.isdir(found):
        found = next((page for page in pages if page.startswith(found + os.sep)), found)
    if found in pages:
        new = pages[found]
    elif found.startswith(DOCS + os.sep) or not os.path.exists(found):
        # A file beside the pages, which mdBook copies; a missing one is found by the check of links.
        new = os.path.relpath(found, DOCS)
    else:
        path = os.path.relpath(found, ROOT)
        return f"{label} (`{path}`)"
    new = os.path.relpath(new, os.path.dirname(pages[file]) or ".")
    return f"[{label}]({new}{'#' + anchor if anchor else ''})"


main()
