"""Results into something to see: a page is plain data, ``html`` and ``markdown`` render it, ``charts`` draws for it."""

from divulge.report import advice, charts, html, in_words, markdown
from divulge.report.dots import Dots
from divulge.report.images import thumbnail
from divulge.report.page import (
    HOTTEST,
    Chart,
    Dial,
    Exhibit,
    Fold,
    Gallery,
    Link,
    Page,
    Paragraph,
    Pictures,
    Point,
    Points,
    Section,
    Stop,
    Table,
)

__all__ = [
    "HOTTEST",
    "Chart",
    "Dial",
    "Dots",
    "Exhibit",
    "Fold",
    "Gallery",
    "Link",
    "Page",
    "Paragraph",
    "Pictures",
    "Point",
    "Points",
    "Section",
    "Stop",
    "Table",
    "advice",
    "charts",
    "html",
    "in_words",
    "markdown",
    "thumbnail",
]
