"""The pages of `divulge view`: nothing is written, and nothing outside the directories is read."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import socket
import threading
from collections.abc import Callable
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import jinja2

from divulge import auditing, lazy, results, runs
from divulge.auditing import compare as comparison
from divulge.auditing import summary as audit_summary
from divulge.auditing.result import KIND as AUDIT
from divulge.errors import InputError
from divulge.identification import finished_run
from divulge.identification.finished_run import RUN_TYPE as IDENTIFICATION
from divulge.report import formatting, html
from divulge.report.page import HEADINGS
from divulge.run_directory import ReplacedError
from divulge.synthetic.comparison import ReleaseComparison
from divulge.validation import check_integer, check_number, format_value

if TYPE_CHECKING:
    import uvicorn
    from starlette import applications, requests, responses, routing

    from divulge.viewing.shelf import Entry, Shelf

    Comparison = comparison.Comparison | ReleaseComparison
else:
    applications = lazy.module("starlette.applications")
    requests = lazy.module("starlette.requests")
    responses = lazy.module("starlette.responses")
    routing = lazy.module("starlette.routing")
    uvicorn = lazy.module("uvicorn")

WORKER = "divulge view: answer"
"""Name of the threads that answer requests."""

_MAX_COMPARED = 20  # runs that are compared at a time
_COOKIE = "divulge-view"
_PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'"
)
# A report may have been edited: it may draw and fold, in a page that has no origin and no connection.
_REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
)
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_ASSETS = {"style.css": "text/css", "view.js": "text/javascript"}


def serve(shelf: Shelf, *, host: str, port: int, ready: Callable[[str], object]) -> bool:
    """Serve until interrupted.

    Args:
        shelf: the runs.
        host: address to listen at.
        port: to listen at; 0 for a free one.
        ready: called with the address to open, token included, once the port is ours.

    Returns:
        Whether an answer is still being computed, in a thread that ends with the process.

    Raises:
        divulge.InputError: an address or port that cannot be had.
    """
    check_integer(port, "--port", minimum=0, maximum=65535)
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()  # whoever is told the address waits for an answer, and is not turned away
    except OSError as error:
        listening.close()
        raise InputError(f"--port: {host}:{port} cannot be had ({error.strerror or error})") from None
    token = secrets.token_urlsafe(24)  # a key, not a draw that a result depends on
    host_in_url = f"[{host}]" if ":" in host else host
    server = uvicorn.Server(
        uvicorn.Config(
            application(shelf, token, (host_in_url, "localhost")),
            log_level="critical",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=0,  # nothing is written, so no answer is worth waiting for
        )
    )
    try:
        ready(f"http://{host_in_url}:{listening.getsockname()[1]}/?token={token}")
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        pass  # the only way to end it
    finally:
        listening.close()
    return any(thread.name == WORKER for thread in threading.enumerate())


def application(shelf: Shelf, token: str, hosts: tuple[str, ...]) -> applications.Starlette:
    """Build the web application.

    Args:
        shelf: the runs.
        token: whoever opens an address with it is let in; others on this machine are not.
        hosts: names under which it may be asked for, so that no name that points here serves another site's page.
    """
    pages = _Pages(shelf)
    answers = {
        "/": pages.listing,
        "/runs/{key:str}": pages.run,
        "/runs/{key:str}/decision": pages.decision,
        "/runs/{key:str}/report": pages.report,
        "/compare": pages.compare,
        "/compare/report": pages.comparison_report,
        "/assets/{name:str}": pages.asset,
    }
    routes = [routing.Route(path, _answer_in_thread(pages.retry_replaced(answer))) for path, answer in answers.items()]
    app = applications.Starlette(routes=routes)
    app.add_middleware(_AccessControl, token=token, hosts=hosts)
    return app


def _answer_in_thread(answer: Callable[[requests.Request], responses.Response]) -> Any:
    """Answer in a thread that does not keep the process alive.

    The server's own worker threads would: whoever ends it by Ctrl-C had to wait for the slowest page.
    """

    async def endpoint(request: requests.Request) -> responses.Response:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[responses.Response] = loop.create_future()

        def settle(result: responses.Response | None, error: BaseException | None) -> None:
            if future.cancelled():
                return
            if result is None:
                future.set_exception(error or RuntimeError("no answer"))
            else:
                future.set_result(result)

        def work() -> None:
            result, error = None, None
            try:
                result = answer(request)
            except BaseException as raised:  # it is raised again where the answer is awaited
                error = raised
            with contextlib.suppress(RuntimeError):  # the server has ended
                loop.call_soon_threadsafe(settle, result, error)

        threading.Thread(target=work, name=WORKER, daemon=True).start()
        return await future

    return endpoint


class _AccessControl:
    """Admits requests to read that have the token and a known host name."""

    def __init__(self, app: Any, *, token: str, hosts: tuple[str, ...]) -> None:
        self._app, self._token, self._hosts = app, token, hosts

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":  # the server's own start and end
            await self._app(scope, receive, send)
            return
        request = requests.Request(scope)
        answer = self._refusal(request)
        if answer is None and "token" in request.query_params:
            answer = responses.RedirectResponse(request.url.path, status_code=303, headers=_HEADERS)
            answer.set_cookie(_COOKIE, self._token, httponly=True, samesite="strict", path="/")
        await (answer or self._app)(scope, receive, send)

    def _refusal(self, request: requests.Request) -> responses.Response | None:
        name = (request.headers.get("host") or "").rsplit(":", 1)[0]
        if name not in self._hosts:
            return responses.PlainTextResponse("unknown host", status_code=400, headers=_HEADERS)
        if request.method not in ("GET", "HEAD"):
            return responses.PlainTextResponse("this server only shows", status_code=405, headers=_HEADERS)
        token = request.query_params.get("token") or request.cookies.get(_COOKIE) or ""
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            advice = "open the address that divulge view printed, with its token"
            return responses.PlainTextResponse(advice, status_code=403, headers=_HEADERS)
        return None


class _Pages:
    """One method for each address."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._templates = jinja2.Environment(
            autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
            loader=jinja2.FunctionLoader(_asset),
        )  # fmt: skip

    def retry_replaced(
        self, answer: Callable[[requests.Request], responses.Response]
    ) -> Callable[[requests.Request], responses.Response]:
        """Return ``answer`` with one retry where runs are replaced while it reads them, then a page with an error."""

        def answer_or_retry(request: requests.Request) -> responses.Response:
            for _ in range(2):
                try:
                    return answer(request)
                except (ReplacedError, OSError):  # what stood there a moment ago is gone
                    continue
            words = "Runs are being replaced while they are read. Load the page again."
            return self._page("failed.html.j2", status=503, words=words)

        return answer_or_retry

    def listing(self, request: requests.Request) -> responses.Response:
        entries = self._shelf.entries()
        kind, words = request.query_params.get("kind", ""), request.query_params.get("words", "")
        matching = [
            entry for entry in entries
            if kind in ("", entry.kind) and words.lower() in f"{entry.name} {entry.verdict}".lower()
        ]  # fmt: skip
        run_types = sorted({entry.kind for entry in entries})
        comparable = sum(entry.comparable for entry in matching)
        return self._page(
            "list.html.j2",
            entries=matching, kinds=run_types, kind=kind, words=words, total=len(entries), comparable=comparable,
        )  # fmt: skip

    def run(self, request: requests.Request) -> responses.Response:
        def render(entry: Entry) -> responses.Response:
            level = _level(request, _requested_level(entry))
            other_audits = [e for e in self._shelf.places() if e.kind == entry.kind == AUDIT and e.key != entry.key]
            decision = _decision(entry, level) if entry.finished else None
            return self._page("run.html.j2", entry=entry, decision=decision, level=f"{level:g}", others=other_audits)

        return self._render_run(request, render)

    def decision(self, request: requests.Request) -> responses.Response:
        def render(entry: Entry) -> responses.Response:
            return self._page("decision.html.j2", decision=_decision(entry, _level(request, "")))

        return self._render_run(request, render)

    def report(self, request: requests.Request) -> responses.Response:
        def render(entry: Entry) -> responses.Response:
            if not entry.has_report:
                return self._missing("this run has no report")
            headers = _HEADERS | {"Content-Security-Policy": _REPORT_POLICY}
            return responses.HTMLResponse(entry.render_report(), headers=headers)

        return self._render_run(request, render)

    def compare(self, request: requests.Request) -> responses.Response:
        def render(entries: list[Entry], compared: Comparison) -> responses.Response:
            endings = [(name, *compared.judge(name)) for name in compared.changes]
            is_release = isinstance(compared, ReleaseComparison)
            overview = compared.overview() if is_release else comparison.overview_table(compared)
            changes_by_run = {
                f"Changes: {name}": comparison.change_table(changes) for name, changes in compared.changes.items()
            }
            tables = [
                {"title": title, "columns": columns, "rows": rows}
                for title, (columns, rows) in {"Runs": overview, **changes_by_run}.items()
            ]
            query = urlencode([("run", entry.key) for entry in entries])
            return self._page("compare.html.j2", entries=entries, endings=endings, tables=tables, query=query)

        return self._render_comparison(request, render)

    def comparison_report(self, request: requests.Request) -> responses.Response:
        def render(entries: list[Entry], compared: Comparison) -> responses.Response:
            headers = _HEADERS | {"Content-Security-Policy": _REPORT_POLICY}
            is_release = isinstance(compared, ReleaseComparison)
            page = compared.page() if is_release else comparison.comparison_page(compared)
            return responses.HTMLResponse(html.render(page), headers=headers)

        return self._render_comparison(request, render)

    def _render_comparison(
        self,
        request: requests.Request,
        render: Callable[[list[Entry], Comparison], responses.Response],
    ) -> responses.Response:
        """Answer with ``render`` of the chosen runs, the earliest first, or with a page with the error."""
        keys = list(dict.fromkeys(request.query_params.getlist("run")))
        try:
            if not 1 < len(keys) <= _MAX_COMPARED:
                raise InputError(f"Choose 2 to {_MAX_COMPARED} runs to compare, got {len(keys)}.")
            entries = sorted((self._shelf.entry(key) for key in keys), key=lambda entry: (entry.date, entry.name))
            return render(entries, runs.compare_runs(*(entry.path for entry in entries)))
        except KeyError:
            return self._missing("there is no such run")
        except ReplacedError:
            raise
        except InputError as error:
            return self._page("failed.html.j2", status=400, words=str(error))

    def asset(self, request: requests.Request) -> responses.Response:
        name = request.path_params["name"]
        if name not in _ASSETS:
            return self._missing("there is no such file")
        return responses.Response(_asset(name), media_type=_ASSETS[name], headers=_HEADERS)

    def _render_run(
        self, request: requests.Request, render: Callable[[Entry], responses.Response]
    ) -> responses.Response:
        """Answer with ``render`` of the run that the address names, or with a page with the error."""
        try:
            return render(self._shelf.entry(request.path_params["key"]))
        except KeyError:
            return self._missing("there is no such run")
        except ReplacedError:
            raise
        except InputError as error:
            return self._page("failed.html.j2", status=400, words=str(error))

    def _missing(self, words: str) -> responses.Response:
        return self._page("failed.html.j2", status=404, words=words)

    def _page(self, template: str, *, status: int = 200, **values: Any) -> responses.Response:
        text = self._templates.get_template(template).render(headings=HEADINGS, when=_format_date, **values)
        # Half a surrogate pair (from a damaged file name, say) cannot be written as UTF-8.
        body = text.encode("utf-8", "replace")
        return responses.HTMLResponse(
            body, status_code=status, headers=_HEADERS | {"Content-Security-Policy": _PAGE_POLICY}
        )


def _requested_level(entry: Entry) -> str:
    """Return the level that the run was made with, as text."""
    if entry.finished and entry.kind == AUDIT:
        return f"{results.read_summary(entry.path, results.AuditSummary).fpr[0]:g}"
    if entry.finished and entry.kind == IDENTIFICATION:
        return f"{results.read_summary(entry.path, results.IdentificationSummary).settings.fdr:g}"
    return "0.01"


def _decision(entry: Entry, level: float) -> dict[str, Any] | None:
    """Return the decision at a level, as a table; None for runs without decisions."""
    if entry.kind == IDENTIFICATION:
        preview = finished_run.preview(entry.path, level)
        rows = [[f"{preview.selected:,} of {preview.candidates:,}", preview.claim]]
        return _table("FDR", level, ["selected", "what is claimed"], rows, preview.warnings)
    if entry.kind != AUDIT:
        return None
    audit = auditing.load(entry.path)
    try:
        selections = {name: audit[name].selection(fpr=level) for name in audit}
    except InputError as error:  # too few calibration records for this level
        return _table("FPR", level, [], [], [str(error)])
    decisions = {
        name: audit_summary.summarise_decision(audit[name], selection, level, len(audit))
        for name, selection in selections.items()
    }
    columns = ["recipe", "selected", "realised FPR", "realised TPR", "precision", "what is claimed"]
    rows = [
        [name, f"{d.selected:,}", *map(formatting.format_percent_estimate, (d.fpr, d.tpr, d.precision)), d.guarantee]
        for name, d in decisions.items()
    ]
    return _table("FPR", level, columns, rows, dict.fromkeys(note for d in decisions.values() for note in d.warnings))


def _table(rate: str, level: float, columns: list[str], rows: list[list[str]], warnings: Any) -> dict[str, Any]:
    sentences = [formatting.as_sentence(warning) for warning in warnings]
    return {"rate": rate, "level": f"{level:g}", "columns": columns, "rows": rows, "warnings": sentences}


def _level(request: requests.Request, default: str) -> float:
    text = request.query_params.get("level", default)
    try:
        return check_number(float(text), "level", above=0, below=1)
    except ValueError:
        raise InputError(f"level: a number between 0 and 1 is needed, got {format_value(text)}") from None


def _format_date(date: str) -> str:
    """Return an ISO date as it is read; a dash where there is none."""
    return f"{date[:10]} {date[11:16]} UTC" if date else "–"


def _asset(name: str) -> str:
    return resources.files("divulge.viewing").joinpath(name).read_text(encoding="utf-8")
