"""Reports: pages are plain data that `html` and `markdown` render and `charts` draws for."""

from divulge.report import charts, exhibits, formatting, html, markdown, sections
from divulge.report.exhibits import thumbnail
from divulge.report.page import (
    MAX_HEAT,
    Bullet,
    BulletList,
    Chart,
    Collapsible,
    DotGrid,
    DotGrids,
    Exhibit,
    Gallery,
    Link,
    Page,
    Paragraph,
    Section,
    Slider,
    SliderPosition,
    Table,
)

__all__ = [
    "MAX_HEAT",
    "Bullet",
    "BulletList",
    "Chart",
    "Collapsible",
    "DotGrid",
    "DotGrids",
    "Exhibit",
    "Gallery",
    "Link",
    "Page",
    "Paragraph",
    "Section",
    "Slider",
    "SliderPosition",
    "Table",
    "charts",
    "exhibits",
    "formatting",
    "html",
    "markdown",
    "sections",
    "thumbnail",
]
