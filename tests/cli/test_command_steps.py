"""Each command's own part: what it refuses, hands on, prints, and with which code it ends."""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import typer
import typer.core

from divulge import InputError
from divulge.auditing.compare import Ruling, Rulings
from divulge.cli import (
    attributes,
    canaries,
    defences,
    documents,
    erasure,
    inspection,
    labels,
    plans,
    printing,
    runs,
    weights,
)
from divulge.cli.printing import Exit
from divulge.settings import ColumnNames, Plan
from divulge.types import Estimate

RUN = Path("run")


def refused(message):
    return pytest.raises(InputError, match=message)


def estimate(low=0.1, high=0.3):
    return Estimate(0.2, low, high, 0.95, "m")


def stopped(code):
    """Whether a command ends with this code; None for the usual end."""
    if code is None:
        return contextlib.nullcontext()
    return pytest.raises(typer.Exit, check=lambda stop: stop.exit_code == code)


class TestGate:
    @pytest.mark.parametrize(
        ("states", "passing", "code"),
        [
            (["kept"], "kept", None),
            (["kept", "undecided"], "kept", Exit.UNDECIDED),
            (["broken"], "kept", Exit.BROKEN),
            (["undecided", "broken", "kept"], "kept", Exit.BROKEN),
            (["undecided"], "undecided", None),
            (["broken", "undecided"], "undecided", Exit.BROKEN),
            (["broken", "undecided"], "broken", Exit.UNDECIDED),
            (["broken", "undecided"], " broken , undecided", None),
            (["broken"], "undecided,broken", None),
        ],
    )
    def test_the_worst_state_that_does_not_pass_decides(self, states, passing, code, monkeypatch, capsys):
        values = {"kept": estimate(0, 0.1), "undecided": estimate(0.4, 0.6), "broken": estimate(0.6, 0.7)}
        rulings = [Ruling("lira", "all", "auc", 0.5, values[state], adjusted=state == "kept") for state in states]
        assert [ruling.state for ruling in rulings] == states
        monkeypatch.setattr(runs.modules.runs, "gate", lambda run, limits, by: Rulings(rulings))
        monkeypatch.setattr(runs.run_directory.RunDirectory, "kind", lambda self: "audit")
        for json in (False, True):
            with stopped(code):
                runs.gate(RUN, ["auc:0.5"], passing, json=json)
            out = capsys.readouterr().out
            if json:
                order = ["kept", "undecided", "broken"]
                assert f'"state": "{max(states, key=order.index)}"' in out
                assert f'"passed": {str(code is None).lower()}' in out
                continue
            assert ("BROKEN" in out) == ("broken" in states)
            assert ("adjusted auc" in out) == ("kept" in states)
            assert out.count("undecided: the limit of auc lies within") == ("undecided" in states)
            assert "recipe" in out

    @pytest.mark.parametrize(
        ("kind", "heading"), [("erasure", "request"), ("attributes", "guess by"), ("audit", "recipe"), (None, "recipe")]
    )
    def test_rulings_are_of_recipes_requests_or_guesses(self, kind, heading, monkeypatch, capsys):
        ruling = Ruling("a", "all", "share", 0.5, estimate(0, 0.1))
        monkeypatch.setattr(runs.modules.runs, "gate", lambda run, limits, by: Rulings([ruling]))
        monkeypatch.setattr(runs.run_directory.RunDirectory, "kind", lambda self: kind)
        runs.gate(RUN, ["share:0.5"])
        assert heading in capsys.readouterr().out

    def test_other_states_and_policies_are_refused_by_their_option(self, monkeypatch):
        monkeypatch.setattr(runs.run_directory.RunDirectory, "kind", lambda self: "audit")
        with refused("^--pass: 'fine' is unknown"):
            runs.gate(RUN, ["auc:0.5"], "kept,fine")

        def fail(run, limits, by):
            raise InputError("policy: policy: x")

        monkeypatch.setattr(runs.modules.runs, "gate", fail)
        with refused("^--max: policy: x$"):
            runs.gate(RUN, ["auc:0.5"])


class TestReport:
    @pytest.fixture
    def written(self, monkeypatch):
        """What is rendered, as (what, …)."""
        seen = []
        kind = SimpleNamespace(
            render_again=lambda run, to: seen.append(("again", to)),
            open=lambda run, read: read(SimpleNamespace(summary="summary")),
            load_records=lambda run: "frame",
        )
        monkeypatch.setattr(runs.modules.runs, "find_kind", lambda run: kind)
        monkeypatch.setattr(runs, "_load_page", lambda run, one_page, shown: ("page", one_page, shown))
        monkeypatch.setattr(runs, "_write_page", lambda page, name, path, one_page: seen.append((page, name, path)))
        monkeypatch.setattr(runs, "_write_egress_files", lambda run, path: seen.append(("sacro", path)))
        monkeypatch.setattr(runs.provenance, "read_provenance", lambda run: None)
        values = {"to_json_values": lambda value, show_records=None: (value, show_records)}
        monkeypatch.setattr(runs.results, "to_json_values", values["to_json_values"])
        monkeypatch.setattr(runs.store, "write_json", lambda path, values: seen.append((values, path)))
        monkeypatch.setattr(runs.store, "write_file", lambda path, write: seen.append(("file", path)))
        monkeypatch.setattr(runs.tables, "escape_formulas", lambda frame: seen.append("escaped"))
        return seen

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, [("again", None)]),
            ({"to": Path("x")}, [("again", Path("x"))]),
            ({"show_records": True}, [("again", None)]),
            ({"show_records": False, "to": Path("x")}, [(("page", False, False), "html", Path("x"))]),
            ({"one_page": True}, [(("page", True, True), "html", RUN / "one_page.html")]),
            ({"format": "pdf"}, [(("page", False, False), "pdf", RUN / "report.pdf")]),
            ({"format": "md", "show_records": True}, [(("page", False, True), "md", RUN / "model_card.md")]),
            ({"format": "json"}, [({"provenance": None, "results": ("summary", False)}, RUN / "results.json")]),
            (
                {"format": "json", "show_records": True},
                [({"provenance": None, "results": ("summary", True)}, RUN / "results.json")],
            ),
            ({"format": "csv"}, ["escaped", ("file", RUN / "records.csv")]),
            ({"format": "parquet"}, [("file", RUN / "records.parquet")]),
            ({"format": "sacro"}, [("sacro", RUN / "egress")]),
        ],
    )
    def test_single_records_are_shown_in_the_page_alone_unless_asked(self, options, expected, written, capsys):
        runs.report(RUN, **options)
        assert written == expected
        runs.report(RUN, **options, json=True)
        assert capsys.readouterr().out.count("report") >= 1

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"show_records": False}, "^--to: needed with --no-show-records"),
            ({"one_page": True, "show_records": False}, "^--show-records: there are none; leave it out"),
            ({"one_page": True, "show_records": True}, "^--show-records: there are none; leave it out"),
            ({"format": "csv", "show_records": True}, "^--show-records: csv has one row per record; leave it out"),
            ({"format": "parquet", "show_records": False}, "^--show-records: parquet has one row per record"),
            ({"format": "sacro", "show_records": True}, "^--show-records: there are none"),
            ({"format": "csv", "one_page": True}, "^--format: 'csv' is unknown"),
            ({"format": "x"}, "^--format: 'x' is unkn"),
        ],
    )
    def test_options_that_do_not_go_together_are_refused(self, options, message, written):
        with refused(message):
            runs.report(RUN, **options)
        assert written == []


class TestDecide:
    def test_options_belong_to_their_kind_of_run(self, monkeypatch):
        monkeypatch.setattr(runs.run_directory.RunDirectory, "kind", lambda self: "audit")
        with refused("^--top: only the candidates of an identification"):
            runs.decide(RUN, top=3)
        monkeypatch.setattr(runs.run_directory.RunDirectory, "kind", lambda self: "identification")
        for options in ({"fpr": 0.1}, {}, {"fpr": 0.1, "fdr": 0.1}):
            with refused("^decide: an identification is decided by --fdr, or looked at by --top"):
                runs.decide(RUN, **options)
        for options in ({"fpr": 0.1}, {"fdr": 0.1}):
            with refused("^--top: it says what holds of the best candidates"):
                runs.decide(RUN, top=3, **options)
        bounds = SimpleNamespace(
            __len__=lambda: 5, guarantee=SimpleNamespace(says=True), confidence=0.9, false=lambda top: top - 1
        )
        envelope = type(
            "Envelope", (), {**vars(bounds), "__len__": lambda self: 5, "false": lambda self, top: top - 1}
        )()
        monkeypatch.setattr(runs.identification, "envelope", lambda run: envelope)
        monkeypatch.setattr(runs.results, "to_json_values", lambda value: None)
        shown = []
        monkeypatch.setattr(printing, "as_json", shown.append)
        for top in (0, 6):
            with refused("^--top: must be at"):
                runs.decide(RUN, top=top)
        runs.decide(RUN, top=5, json=True)
        envelope.guarantee.says = False
        runs.decide(RUN, top=1, json=True)
        assert [(each["top"], each["false"]) for each in shown] == [(5, 4), (1, None)]
        monkeypatch.setattr(runs.finished_run, "describe_best", lambda bounds, top: f"best {top}")
        runs.decide(RUN, top=2)

    @pytest.mark.parametrize(("selected", "says", "is_shown"), [(3, True, True), (0, True, False), (3, False, False)])
    def test_doubt_is_told_where_something_is_claimed(self, selected, says, is_shown, monkeypatch, capsys):
        monkeypatch.setattr(runs.finished_run, "sensitivity", lambda folder: "it holds up to 2")
        runs.show_sensitivity(SimpleNamespace(selected=selected, guarantee=SimpleNamespace(says=says)), RUN)
        assert bool(capsys.readouterr().out) == is_shown

    def test_warnings_of_some_recipes_have_their_names(self, monkeypatch, capsys):
        @dataclass
        class Decision:
            selected: int
            guarantee: str
            warnings: tuple
            fpr = tpr = precision = None

        decisions = {
            "lira": Decision(1200, "one claim", ("of both", "of lira alone", "lira: its own")),
            "rmia": Decision(0, "another", ("of both",)),
        }
        result = SimpleNamespace(selection=lambda **given: given)
        audit = type("Audit", (dict,), {"scores": property(lambda self: list(self))})(lira=result, rmia=result)
        monkeypatch.setattr(runs.run_directory.RunDirectory, "kind", lambda self: "audit")
        monkeypatch.setattr(runs.auditing, "load", lambda run: audit)
        asked, names = [], iter(decisions.values())

        def summarise(result, selection, fpr, count):
            asked.append((selection, fpr, count))
            return next(names)

        monkeypatch.setattr(runs.audit_summary, "summarise_decision", summarise)
        runs.decide(RUN, fpr=0.05)
        out = capsys.readouterr().out.splitlines()
        assert "Decisions at FPR ≤ 0.05" in out[0]
        assert any("1,200" in text for text in out)
        assert out[-5:] == [
            "lira: one claim",
            "rmia: another",
            "warning: of both",
            "warning: lira: of lira alone",
            "warning: lira: its own",
        ]
        assert asked[0] == ({"fpr": 0.05, "fdr": None, "method": "auto"}, 0.05, 2)
        with refused("^--recipe: 'x' is unknown"):
            runs.decide(RUN, fpr=0.05, recipe="x")


FILES = {"members": "a", "nonmembers": "b", "population": "c"}


def a_plan(**changes):
    return Plan.check(**{"target": {"model": "m"}, "data": FILES} | changes)


class TestPlans:
    def test_columns_and_task_go_before_the_plans(self):
        plan = a_plan()
        assert plans.replace_columns(plan, ColumnNames()) is plan
        changed = plans.replace_columns(plan, ColumnNames(label="y"), covariates=["c"])
        assert (changed.data.label, changed.data.covariates, changed.data.id) == ("y", ["c"], "id")
        assert plans._replace_task(plan, None) is plan
        assert plans._replace_task(plan, "regression").task == "regression"
        with refused("^--task: 'x' is unknown"):
            plans._replace_task(plan, "x")

    def test_files_of_a_plan_are_those_that_exist(self, tmp_path):
        for name in ("m", "a", "sub"):
            (tmp_path / name).mkdir() if name == "sub" else (tmp_path / name).write_text("")
        (tmp_path / "sub" / "b").write_text("")
        found = plans.list_input_files(a_plan(), tmp_path / "plan.toml")
        assert found == {"model": tmp_path / "m", "members": tmp_path / "a", "nonmembers": None, "population": None}
        inside = plans.list_input_files(a_plan(folder="sub"), tmp_path / "plan.toml")
        assert (inside["members"], inside["nonmembers"]) == (None, tmp_path / "sub" / "b")
        endpoint = a_plan(target={"model": "m", "endpoint": "http://x"})
        assert plans.list_input_files(endpoint, tmp_path / "plan.toml")["model"] is None

    @pytest.mark.parametrize(
        ("columns", "fpr", "covariate", "others", "message"),
        [
            (ColumnNames(), None, None, {"features": None, "task": "", "show_records": None}, None),
            (ColumnNames(), [], [], {"features": ""}, None),
            (ColumnNames(label="y"), None, None, {}, "^--label, --id, --text, --group, --person, --drop: name columns"),
            (ColumnNames(), [0.1], None, {}, "^--fpr: goes with a plan; of the demo's run"),
            (ColumnNames(), None, ["a"], {}, "^--covariate: goes with a plan$"),
            (ColumnNames(), None, None, {"show_records": False}, "^--show-records: goes with a plan$"),
            (ColumnNames(), None, None, {"features": "e"}, "^--features: goes with a plan$"),
        ],
    )
    def test_options_of_a_plan_are_none_of_the_demo(self, columns, fpr, covariate, others, message):
        with refused(message) if message else contextlib.nullcontext():
            plans._check_demo_options(columns, fpr, covariate, **others)

    def test_an_audit_is_of_a_plan_or_the_demo(self):
        given = {"columns": ColumnNames()}
        run = plans.audit.__wrapped__
        with refused("^audit: give a plan, or --demo"):
            run(**given)
        for options in ({"quick": True}, {"seed": 0}):
            with refused("^audit: --quick and --seed go with --demo"):
                run(plan=RUN, **options, **given)

    @pytest.mark.parametrize(
        ("name", "quick", "size"),
        [
            ("text", False, "FULL_TEXTS"),
            ("text", True, "QUICK_TEXTS"),
            ("images", False, "FULL_IMAGES"),
            ("images", True, "QUICK_IMAGES"),
        ],
    )
    def test_a_demo_is_quick_where_asked(self, name, quick, size, monkeypatch, tmp_path):
        seen = []
        monkeypatch.setattr(plans.demos, "audit_language_model", lambda folder, **given: seen.append(given) or 1)
        monkeypatch.setattr(plans.demos, "audit_images", lambda folder, **given: seen.append(given) or (1, 2))
        found, folder = plans._run_demo(name, tmp_path, None, quick, False)
        assert folder == tmp_path
        assert seen[0]["size"] == getattr(plans.demos, size)
        assert seen[0]["seed"] == 0
        titles = [""] if name == "text" else ["All classes known to the auditor", "Class 3 unseen by the auditor"]
        assert list(found) == titles
        with refused("^--demo: 'x' is unknown"):
            plans._run_demo("x", tmp_path, None, quick, False)
        with refused("^--seed: must be at least 0"):
            plans._run_demo(name, tmp_path, -1, quick, False)

    @pytest.mark.parametrize(
        ("value", "text"), [(0.5, ".500 [.250, 1.000]"), (1.0, "1.000 [.250, 1.000]"), (0.0, ".000 [.250, 1.000]")]
    )
    def test_figures_of_a_list_are_short(self, value, text):
        assert plans._format_short(Estimate(value, 0.25, 1.0, 0.95, "m")) == text

    @pytest.mark.parametrize(
        ("count", "references", "text"),
        [
            (0, "none", "lira (no references)"),
            (1, "out", "lira (1 reference)"),
            (2, "out", "lira (2 references)"),
            (2, "in and out", "lira (2 references, trained on candidates too)"),
        ],
    )
    def test_a_suggestion_says_its_references(self, count, references, text, capsys):
        figure = SimpleNamespace(references=count, auc=estimate(), tpr=estimate(), data=SimpleNamespace(title="images"))
        recipe = SimpleNamespace(name="lira", references=references)
        plans._show_suggestion(SimpleNamespace(figures=[figure], recipe=recipe))
        out = capsys.readouterr().out.splitlines()
        assert out[1] == text
        assert out[2].split() == ["AUC", "TPR", "at", "1", "%"]
        assert out[3] == f"  {'images':14}{'.200 [.100, .300]':19}.200 [.100, .300]"


class TestOthers:
    @pytest.mark.parametrize(
        ("answer", "code"),
        [("leak found", Exit.BROKEN), ("no leak found", None), ("too little data to say", Exit.UNDECIDED)],
    )
    def test_an_attribute_that_is_given_away_is_broken(self, answer, code, monkeypatch):
        subject = SimpleNamespace(known=None, unseen_classes=(), members=1, nonmembers=2, population=3)
        names = ("references", "duplicates", "outputs", "task", "device", "seed", "show_records")
        resolved = SimpleNamespace(
            subject=subject, options=SimpleNamespace(**dict.fromkeys(names, "o")), target="t", pool=None
        )
        seen = []
        result = SimpleNamespace(summary=lambda: SimpleNamespace(answer=answer))
        monkeypatch.setattr(attributes.modules.plan, "read", lambda path: a_plan())
        monkeypatch.setattr(attributes.modules.plan, "resolve", lambda *given: resolved)
        monkeypatch.setattr(attributes.attributes, "infer", lambda target, **given: seen.append(given) or result)
        monkeypatch.setattr(attributes, "_show", lambda result, out: None)
        context = SimpleNamespace(get_parameter_source=lambda name: None)
        given = {"context": context, "plan": RUN, "settings": attributes.AttributeRules(), "columns": ColumnNames()}
        run = attributes.attribute.__wrapped__
        with stopped(code):
            run(column=["3", "age", "-1"], **given)
        assert seen[0]["column"] == [3, "age", "-1"]
        assert (seen[0]["members"], seen[0]["seed"]) == (1, "o")
        with refused("^--column: needed"):
            run(**given)
        for change in ({"known": 1}, {"unseen_classes": (3,)}):
            monkeypatch.setattr(
                attributes.modules.plan,
                "resolve",
                lambda *_, change=change: SimpleNamespace(
                    subject=SimpleNamespace(**vars(subject) | change), options=None, target=None, pool=None
                ),
            )
            with refused("^plan: whole records of all classes are needed"):
                run(column=["3"], **given)

    @pytest.mark.parametrize(
        ("answer", "code"),
        [("violated", Exit.BROKEN), ("not testable", Exit.UNDECIDED), ("consistent", None)],
    )
    def test_a_claim_that_is_violated_is_broken(self, answer, code, monkeypatch):
        summary = SimpleNamespace(answer=answer)
        monkeypatch.setattr(canaries.targets, "load", lambda *given, **named: "target")
        monkeypatch.setattr(canaries.estimators, "known_texts", lambda target: ())
        monkeypatch.setattr(canaries.modules.canaries.Canaries, "load", lambda *given, **named: "planted")
        monkeypatch.setattr(canaries.canary_records, "layout_beside", lambda *given: None)
        seen = []
        monkeypatch.setattr(
            canaries.modules.canaries,
            "audit",
            lambda *given, **named: seen.append(named) or SimpleNamespace(summary=lambda: summary),
        )
        monkeypatch.setattr(canaries.results, "to_json_values", lambda value: None)
        run = canaries.audit.__wrapped__
        given = {"settings": canaries.CanaryAuditSettings(), "columns": ColumnNames(), "json": True}
        with stopped(code):
            run(model="m", canaries=RUN, claim_epsilon=2.0, delta=0.1, **given)
        claim = seen[0]["claim"]
        assert (claim.epsilon, claim.delta) == (2.0, 0.1)
        with stopped(code):
            run(model="m", canaries=RUN, **given)
        assert seen[1]["claim"] is seen[1]["population"] is seen[1]["training"] is None
        with refused("^--delta: it belongs to a claim"):
            run(model="m", canaries=RUN, delta=0.1, **given)

    def test_a_plan_of_canaries_finds_more_than_the_claim(self, monkeypatch, capsys):
        run, given = canaries.plan.__wrapped__, {"settings": canaries.CanaryPlanSettings()}
        for true in (1.0, 0.5):
            with refused(r"^--true-epsilon: must be above --claim-epsilon \(1\), got "):
                run(claim_epsilon=1.0, true_epsilon=true, **given)
        sizes = [None, SimpleNamespace(canaries=80, power=0.85, guesses=40)]
        monkeypatch.setattr(canaries.evaluation, "canaries_needed", lambda *given, **named: sizes.pop(0))
        run(claim_epsilon=1.0, true_epsilon=4.0, **given)
        assert "A million canaries would not do" in capsys.readouterr().out
        run(claim_epsilon=1.0, true_epsilon=4.0, **given)
        assert capsys.readouterr().out.startswith(
            "80 canaries find a Gaussian mechanism of ε = 4 with probability 0.85"
        )

    def test_families_are_read(self):
        assert canaries._parse_family(None) is None
        assert canaries._parse_family("gaussian") == "gaussian"
        found = canaries._parse_family(" Subsampled:0.01:1000")
        assert (found.rate, found.steps) == (0.01, 1000)
        for text in ("subsampled", "subsampled:0.1", "subsampled:x:3", "subsampled:0.1:2:3"):
            with refused("^--family: subsampled:RATE:STEPS is needed"):
                canaries._parse_family(text)

    @pytest.mark.parametrize(
        ("answer", "code"),
        [("too little data to say", Exit.UNDECIDED), ("no difference found", None), ("still remembered", Exit.BROKEN)],
    )
    def test_records_that_are_remembered_are_broken(self, answer, code, monkeypatch):
        result = SimpleNamespace(summary=lambda: SimpleNamespace(answer=answer))
        monkeypatch.setattr(erasure.modules.unlearning, "forget", lambda **given: result)
        monkeypatch.setattr(erasure, "_read_plan", lambda path, trust: {})
        monkeypatch.setattr(erasure.results, "to_json_values", lambda value: None)
        run = erasure.forget.__wrapped__
        context = typer.Context(typer.core.TyperCommand("forget"))
        given = {
            "context": context, "settings": erasure.ForgetSettings(), "columns": ColumnNames(), "json": True,
        }  # fmt: skip
        with stopped(code):
            run(from_plan=RUN, **given)
        for named, missing in (({}, "after"), ({"after": "a"}, "never"), ({"after": "a", "never": RUN}, "forget")):
            with refused(f"^--{missing}: needed; or give a plan"):
                run(**named, **given)

    @pytest.mark.parametrize(("n", "text"), [(1, "0"), (10, "9"), (11, "9 and 1 more")])
    def test_ten_records_of_a_list_are_shown(self, n, text, monkeypatch, capsys):
        monkeypatch.setattr(erasure.erasure_page, "request_rows", lambda summary: [])
        summary = SimpleNamespace(
            tone="leak",
            verdict="v",
            quality=[SimpleNamespace(records="all", measure="accuracy", before=0.5, after=0.25)],
            warnings=(),
            settings=SimpleNamespace(fdr=0.05),
        )
        result = SimpleNamespace(summary=lambda: summary, remembered={"mine": np.arange(n), "none": np.arange(0)})
        erasure._show(result, None)
        out = capsys.readouterr().out.splitlines()
        assert f"mine, still remembered (FDR ≤ 0.05): {', '.join(map(str, range(min(n, 9))))}" in "\n".join(out)
        assert out[-2].endswith(f"{text}")
        assert out[-1] == "all: accuracy 0.500 before, 0.250 after"
        erasure._show(result, Path("out"))
        assert capsys.readouterr().out.splitlines()[-1] == f"Report: {Path('out') / 'report.html'}"

    def test_requests_have_the_names_of_their_files(self):
        records = {Path("a.csv"): 1, Path("b/c.csv"): 2, Path("b/a.csv"): 3}
        assert erasure._name_requests([Path("a.csv")], records) == 1
        assert erasure._name_requests([Path("a.csv"), Path("b/c.csv")], records) == {"a": 1, "c": 2}
        with refused("^--forget: a request has the name of its file, and two files have the same"):
            erasure._name_requests([Path("a.csv"), Path("b/a.csv")], records)

    def test_models_of_a_folder_are_its_files(self, tmp_path):
        assert erasure._list_models("none") == ["none"]
        with refused("^--references: no models in "):
            erasure._list_models(str(tmp_path))
        for name in ("b.onnx", "a.safetensors", ".hidden"):
            (tmp_path / name).write_text("")
        (tmp_path / "folder").mkdir()
        assert erasure._list_models(str(tmp_path)) == [str(tmp_path / "a.safetensors"), str(tmp_path / "b.onnx")]
        (tmp_path / ".divulge-pool").write_text("")
        assert erasure._list_models(str(tmp_path)) == [str(tmp_path / "a.safetensors")]
        for name in ("config.json", "adapter_config.json"):
            folder = tmp_path / name.split(".", maxsplit=1)[0]
            folder.mkdir()
            (folder / name).write_text("")
            assert erasure._list_models(str(folder)) == [str(folder)]

    @pytest.mark.parametrize(
        ("size", "is_known", "text"),
        [
            (None, False, "it does not say"),
            (1200, False, "1,200 or more"),
            (1200, True, "1,200"),
            (None, True, "it does n"),
        ],
    )
    def test_an_inspection_says_what_the_file_holds(self, size, is_known, text, capsys):
        inspected = SimpleNamespace(
            model="a tree",
            training_records=size,
            arrays=3,
            long_arrays=[(f"w{i:02}", "(9,)") for i in range(11)],
            leaves=0,
            hints=(),
        )
        inspection._show(RUN, inspected, is_known=is_known)
        out = capsys.readouterr().out
        assert f"Training records: {text}" in out
        assert ("or more" in out) == (size is not None and not is_known)
        assert "w09" in out
        assert "w10" not in out
        assert "Leaves" not in out
        hint = SimpleNamespace(name="leaves", found="5", threshold="2", meaning="Few.", measured="9")
        full = SimpleNamespace(
            **vars(inspected)
            | {
                "leaves": 1200,
                "single_leaves": 3,
                "small_leaves": 4,
                "hints": (hint, SimpleNamespace(**vars(hint) | {"measured": ""})),
            }
        )
        inspection._show(RUN, full, is_known=True)
        out = capsys.readouterr().out
        assert "Leaves: 1,200; of one record: 3; of few: 4." in out
        assert out.count("Hint, leaves: 5 (wanted: 2). Few.") == 2
        assert out.count("Few. Measured: 9\n") == 1
        with refused("^members: the plan names them"):
            inspection._inspect_plan(RUN, {}, ColumnNames(), RUN, ())

    def test_a_defence_needs_whole_records_of_all_classes(self, monkeypatch):
        whole = {"known": None, "unseen_classes": (), "population": 1, "members": 2, "nonmembers": 3}
        options = SimpleNamespace(
            recipes=("lira", "loss"), references=None, fpr=(0.01, 0.1), duplicates="error", task="auto", seed=4
        )
        seen = []
        monkeypatch.setattr(defences.modules.plan, "read", lambda path: a_plan())
        monkeypatch.setattr(defences.defences, "measure_settings", lambda target, **given: seen.append(given))
        monkeypatch.setattr(defences, "_show", lambda result, out: None)
        context = SimpleNamespace(get_parameter_source=lambda name: None)
        run = defences.defend.__wrapped__
        for change, fits in (
            ({}, True),
            ({"known": 1}, False),
            ({"unseen_classes": (1,)}, False),
            ({"population": None}, False),
        ):
            resolved = SimpleNamespace(subject=SimpleNamespace(**whole | change), options=options, target="t")
            monkeypatch.setattr(defences.modules.plan, "resolve", lambda *_, resolved=resolved: resolved)
            given = {"context": context, "plan": RUN, "settings": defences.DefendRules(), "columns": ColumnNames()}
            with contextlib.nullcontext() if fits else refused("^plan: whole records of all classes"):
                run(**given)
        assert len(seen) == 1
        assert (seen[0]["recipe"], seen[0]["fpr"], seen[0]["seed"]) == ("lira", 0.1, 4)

    @pytest.mark.parametrize(("n", "is_cut"), [(20, False), (21, True)])
    def test_twenty_records_called_members_are_shown(self, n, is_cut, monkeypatch, capsys):
        monkeypatch.setattr(weights.weights_page, "decision_rows", lambda summary: [["r", "1", "c"]])
        monkeypatch.setattr(
            weights.weights_page, "called_rows", lambda summary: [[f"id{i:02}", "1", "2", "r"] for i in range(n)]
        )
        rule = SimpleNamespace(warnings=("careful",))
        weights._show(SimpleNamespace(tone="leak", verdict="v", candidates=9, signal="s", decisions={"bh": rule}))
        out = capsys.readouterr().out
        assert "id19" in out
        assert "id20" not in out
        assert ("and 1 more; --selection writes them all" in out) == is_cut
        assert out.splitlines()[-1] == "bh: careful"


class TestDocuments:
    def test_scores_have_a_direction_or_are_asked_for_one(self, monkeypatch):
        assert documents._with_direction("loss:low", ask=True) == "loss:low"
        assert documents._with_direction("loss", ask=False) == "loss"
        assert documents._with_direction("loss", ask=True) == "loss"  # nobody is there
        terminal = SimpleNamespace(isatty=lambda: True)
        monkeypatch.setattr(documents, "sys", SimpleNamespace(stdin=terminal, stdout=terminal))
        monkeypatch.setattr(typer, "prompt", lambda question, default: " LOW ")
        assert documents._with_direction("loss", ask=True) == "loss:low"
        assert documents._with_direction("loss", ask=False) == "loss"
        monkeypatch.setattr(typer, "prompt", lambda question, default: "up")
        with refused("^--score: 'up' is unknown"):
            documents._with_direction("loss", ask=True)
        pipe = SimpleNamespace(isatty=lambda: False)
        for streams in ({"stdin": pipe, "stdout": terminal}, {"stdin": terminal, "stdout": pipe}):
            monkeypatch.setattr(documents, "sys", SimpleNamespace(**streams))
            assert documents._with_direction("loss", ask=True) == "loss"

    def test_candidates_and_calibration_are_needed(self):
        run = documents.identify.__wrapped__
        given = {"settings": documents.IdentifySettings(), "columns": ColumnNames()}
        with refused("^candidates: at least one table is needed"):
            run(**given)
        with refused("^--calibration: a table of documents"):
            run(tables=[RUN], **given)

    def test_a_power_or_what_a_calibration_gives_is_asked_for(self, monkeypatch):
        seen = []
        monkeypatch.setattr(documents, "_show_calibration", lambda *given: seen.append(given[1]))
        monkeypatch.setattr(documents, "_show_power", lambda *given: seen.append(given[1]))
        run = documents.power.__wrapped__
        given = {"candidates": 50, "members": 20, "auc": 0.9, "settings": documents.DecisionSettings()}
        run(**given)
        run(wanted=0.5, **given)
        run(calibration=70, **given)
        assert seen == [0.8, 0.5, 70]
        with refused("^--wanted: a power is asked for"):
            run(wanted=0.5, calibration=70, **given)

    @pytest.mark.parametrize(
        ("least", "text"),
        [(None, "They can prove no selection at this level; 1,999 can"), (1200, "of 1,200 candidates")],
    )
    def test_what_a_calibration_can_prove_is_told(self, least, text, monkeypatch, capsys):
        monkeypatch.setattr(documents.planning, "power", lambda *given, **named: estimate())
        monkeypatch.setattr(documents.step_up, "min_selected", lambda *given: least)
        monkeypatch.setattr(documents.step_up, "required_calibration", lambda *given: 1999)
        setting = SimpleNamespace(candidates=50)
        documents._show_power(setting, 1000, documents.DecisionSettings(), ("bh",), False)
        out = capsys.readouterr().out
        assert text in out
        assert "With 1,000 calibration scores" in out
        assert "0.200 [0.100, 0.300]" in out

    def test_the_calibration_of_a_power_is_told(self, monkeypatch, capsys):
        plans_found = iter(
            [
                SimpleNamespace(calibration=None, power=estimate(), least=19),
                SimpleNamespace(calibration=1500, power=estimate(), least=29),
            ]
        )
        monkeypatch.setattr(documents.planning, "calibration", lambda *given, **named: next(plans_found))
        documents._show_calibration(None, 0.8, documents.DecisionSettings(), ("bh", "storey"), False)
        out = capsys.readouterr().out
        assert "To select 80 % of the members" in out
        assert "over 20,000" in out
        assert "1,500" in out
        assert "With fewer than 19 no method selects anything." in out

    def test_an_interruption_says_what_is_kept(self):
        with pytest.raises(KeyboardInterrupt, match="nothing is kept"), documents._explain_interruption(None):
            raise KeyboardInterrupt
        with pytest.raises(KeyboardInterrupt, match=r"^$"), documents._explain_interruption(RUN):
            raise KeyboardInterrupt


class TestLabels:
    def test_answers_that_contradict_end_the_command(self, monkeypatch, capsys):
        monkeypatch.setattr(labels.labels_summary, "summarise", lambda *given: "summary")
        monkeypatch.setattr(labels.results, "to_json_values", lambda value: value)
        for json in (False, True):
            with stopped(Exit.CONTRADICTED):
                labels._summarise(None, SimpleNamespace(contradiction="two scores differ"), None, None, json)
            streams = capsys.readouterr()
            assert streams.err.startswith("divulge: two scores differ; no labels are given")
            assert streams.out == ('"summary"\n' if json else "")
        assert labels._summarise(None, SimpleNamespace(contradiction=None), None, None, False) == "summary"

    @pytest.mark.parametrize(
        ("text", "expected"), [("accuracy", "accuracy"), ("0:1", (0.0, 1.0)), ("-1:2.5", (-1.0, 2.5))]
    )
    def test_a_metric_is_a_name_or_a_range(self, text, expected):
        found = labels._parse_metric(text)
        assert (found if isinstance(found, str) else (found.low, found.high)) == expected
