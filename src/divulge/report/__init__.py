"""Results into something to see: a page is plain data, ``html`` and ``markdown`` render it, ``charts`` draws for it."""

from divulge.report import charts, html, markdown
from divulge.report.images import thumbnail
from divulge.report.page import HOTTEST, Chart, Exhibit, Gallery, Page, Paragraph, Section, Table

__all__ = [
    "HOTTEST",
    "Chart",
    "Exhibit",
    "Gallery",
    "Page",
    "Paragraph",
    "Section",
    "Table",
    "charts",
    "html",
    "markdown",
    "thumbnail",
]
