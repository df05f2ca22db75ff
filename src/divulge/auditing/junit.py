"""A gate's answer as JUnit XML, which test reports of CI servers read: one test case for each limit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from divulge.auditing.gates import Rulings, format_statistic

if TYPE_CHECKING:
    from collections.abc import Collection

    from divulge.auditing.gates import Ruling

# What XML 1.0 cannot hold, not even escaped: most control characters, halves of surrogate pairs, two non-characters.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(rulings: Rulings, run: str, passing: Collection[str] = ("kept",)) -> str:
    r"""Return the rulings of a gate as JUnit XML.

    A limit that is kept is a test that passed, whose output says within which classes it was not judged. One that is
    broken or undecided is a failure where the exit code of ``divulge gate`` says so, and was skipped where ``--pass``
    lets it through.

    Args:
        rulings: of the gate.
        run: name of the run, which names the suite.
        passing: states that pass.

    Examples:
        >>> from divulge.auditing.gates import Ruling, Rulings
        >>> from divulge.types import Estimate
        >>> rulings = Rulings([Ruling("loss", "all", "auc", 0.55, Estimate(0.7, 0.6, 0.8, 0.95, ""))])
        >>> print(render_junit(rulings, "runs/<mine>"))
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites>
          <testsuite name="divulge gate runs/&lt;mine&gt;" tests="1" failures="1" errors="0" skipped="0">
            <testcase classname="divulge.gate" name="auc:0.55">
              <failure type="broken" message="auc:0.55 is broken: loss on all is 0.700 [0.600, 0.800]">broken: auc of
                loss on all is 0.700 [0.600, 0.800], limit 0.55</failure>
            </testcase>
          </testsuite>
        </testsuites>
    """
    cases = []
    for limit, held in rulings.group_by_limit().items():
        case = ET.Element("testcase", classname="divulge.gate", name=limit)
        details = "\n".join(held.describe())
        if held.state == "kept":
            ET.SubElement(case, "system-out").text = _clean(details)
        else:
            tag = "skipped" if held.state in passing else "failure"
            reason = f" ({held[0].reason})" if held[0].reason else ""
            others = Rulings(ruling for ruling in held[1:] if ruling.state == held.state)
            further = f"; also {held.state}: {others.list_subjects()}" if len(others) else ""
            message = f"{limit} is {held.state}: {_describe(held[0])}{reason}{further}"
            ET.SubElement(case, tag, type=held.state, message=_clean(message)).text = _clean(details)
        cases.append(case)
    return _render(cases, run)


def render_junit_error(message: str, run: str) -> str:
    """Return JUnit XML of a gate that could not be held: one error, so that no earlier answer is taken for this one.

    Examples:
        >>> print(render_junit_error("runs/mine: no run there", "runs/mine").splitlines()[4].strip())
        <error type="input" message="runs/mine: no run there" />
    """
    case = ET.Element("testcase", classname="divulge.gate", name="gate")
    ET.SubElement(case, "error", type="input", message=_clean(message))
    return _render([case], run)


def _render(cases: list[ET.Element], run: str) -> str:
    counts = {
        name: str(sum(case.find(tag) is not None for case in cases))
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
    }
    suites = ET.Element("testsuites")
    suite = ET.SubElement(
        suites, "testsuite", {"name": _clean(f"divulge gate {run}"), "tests": str(len(cases)), **counts}
    )
    suite.extend(cases)
    ET.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(suites, encoding="unicode")}\n'


def _describe(ruling: Ruling) -> str:
    return f"{ruling.recipe} on {ruling.scope} is {format_statistic(ruling.metric, ruling.estimate)}"


def _clean(text: str) -> str:
    """Spell out the characters that XML cannot hold."""
    return _NOT_XML.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
