"""Results into something to see: a page is plain data, ``html`` and ``markdown`` render it, ``charts`` draws for it."""

from divulge.report import charts, formatting, html, markdown, sections
from divulge.report.page import DotGrid
from divulge.report.exhibits import thumbnail
from divulge.report.page import (
    MAX_HEAT,
    Chart,
    Slider,
    Exhibit,
    Collapsible,
    Gallery,
    Link,
    Page,
    Paragraph,
    DotGrids,
    Bullet,
    BulletList,
    Section,
    SliderPosition,
    Table,
)

__all__ = [
    "MAX_HEAT",
    "Chart",
    "Slider",
    "DotGrid",
    "Exhibit",
    "Collapsible",
    "Gallery",
    "Link",
    "Page",
    "Paragraph",
    "DotGrids",
    "Bullet",
    "BulletList",
    "Section",
    "SliderPosition",
    "Table",
    "advice",
    "charts",
    "html",
    "formatting",
    "markdown",
    "thumbnail",
]
