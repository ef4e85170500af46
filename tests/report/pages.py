"""Read a report: its numbers, its charts, its data."""

from __future__ import annotations

import json
from html.parser import HTMLParser

from roofsim.report.html.blocks import Data

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Node:
    """An element: its name, its attributes, the elements in it, the text in it."""

    def __init__(self, name, attributes, parent):
        self.name, self.attributes, self.parent, self.children, self.texts = name, attributes, parent, [], []

    def walk(self):
        yield self
        for child in self.children:
            yield from child.walk()

    def all(self, name=None, **wanted):
        """Return the elements of a name (with attributes: ``class_="chart"``) in it."""
        pairs = {key.rstrip("_").replace("_", "-"): value for key, value in wanted.items()}
        return [
            node
            for node in self.walk()
            if (name is None or node.name == name)
            and all(
                key in node.attributes and (value is True or value in (node.attributes[key] or "").split())
                for key, value in pairs.items()
            )
        ]

    @property
    def text(self):
        return "".join(piece if isinstance(piece, str) else piece.text for piece in self.texts)


class Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.root = self.here = Node("document", {}, None)
        self.unclosed = []

    def handle_starttag(self, tag, attrs):
        node = Node(tag, dict(attrs), self.here)
        self.here.children.append(node)
        self.here.texts.append(node)
        if tag not in VOID:
            self.here = node

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if self.here.name != tag:
            self.unclosed.append((self.here.name, tag))
            return
        self.here = self.here.parent

    def handle_data(self, data):
        self.here.texts.append(data)


def read(text):
    """Return a page as a tree; elements that do not close as they should are an error."""
    reader = Reader()
    reader.feed(text)
    assert reader.unclosed == []
    assert reader.here is reader.root
    return reader.root


def data_of(page):
    """Return the data of a page."""
    (script,) = [node for node in page.all("script") if node.attributes.get("type") == "application/json"]
    return json.loads(script.text)


def mismatches(page):
    """Return what a page shows that is not what its data say: numbers in text and marks of charts alike."""
    data, wrong = Data(data_of(page)), []
    for node in page.all(data_key=True):
        given = float(node.attributes["value" if node.name == "data" else "data-value"])
        if data.at(node.attributes["data-key"]) != given:
            wrong.append((node.attributes["data-key"], given, data.at(node.attributes["data-key"])))
    return wrong
