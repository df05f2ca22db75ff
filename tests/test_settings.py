"""Every setting is declared once: its default, bounds and description are the same in Python, plans and commands."""

import inspect
import re

import pytest
import typer
from pydantic_core import PydanticUndefined

import divulge as dv
from divulge import (
    canaries,
    candidates,
    cli,
    evaluation,
    extraction,
    identification,
    labels,
    plan,
    references,
    settings,
    targets,
)
from divulge.auditing.weights import ExaminationRules
from divulge.cli.options import RELOCATED
from divulge.identification import document_scoring, from_tables
from divulge.targets import folders
from divulge.targets.language_models import CausalLM

# Settings and what takes them in Python; each of the settings is an argument of one of these.
PYTHON = {
    settings.ResolvedAuditSettings: [dv.audit, dv.AuditOptions],
    settings.DecisionSettings: [identification.identify],
    settings.SearchSettings: [candidates.identify_records],
    settings.IdentifySettings: [from_tables.DecisionPlan, identification.identify],
    settings.ScoreSettings: [document_scoring.ScoringOptions, CausalLM, folders.load_folder],
    settings.DecodingSettings: [targets.Decoding],
    settings.CutSettings: [extraction.Cut],
    settings.ExtractSettings: [extraction.measure],
    settings.ForgetSettings: [dv.forget],
    settings.CanarySettings: [canaries.make],
    settings.CanaryAuditSettings: [canaries.audit, canaries.play],
    settings.CanaryPlanSettings: [evaluation.canaries_needed],
    settings.LabelPrivacySettings: [canaries.label_privacy],
    settings.OracleSettings: [labels.OracleSpec],
    settings.DesignSettings: [labels.design],
    settings.DefenceSettings: [labels.defend],
    settings.SeasonSettings: [labels.menu],
    settings.WeightsSettings: [ExaminationRules],
    settings.TrainingSettings: [references.Train],
    settings.CustomTrainingSettings: [references.Custom],
    settings.FineTuningSettings: [references.FineTune],
    settings.LoRASettings: [references.LoRA],
    settings.DifferentialPrivacySettings: [references.Private],
}

COMMANDS = {
    ("identify",): [settings.IdentifySettings],
    ("score",): [settings.ScoreSettings],
    ("extract",): [settings.ExtractSettings, settings.DecodingSettings, settings.LanguageModelSettings],
    ("weights",): [settings.WeightsSettings],
    ("forget",): [settings.ForgetSettings, settings.ColumnNames],
    ("canaries", "make"): [settings.CanarySettings, settings.ColumnNames],
    ("canaries", "audit"): [settings.CanaryAuditSettings, settings.ColumnNames],
    ("canaries", "plan"): [settings.CanaryPlanSettings],
    ("canaries", "labels"): [settings.LabelPrivacySettings],
    ("labels", "capacity"): [settings.OracleSettings],
    ("labels", "design"): [settings.OracleSettings, settings.DesignSettings],
    ("labels", "simulate"): [settings.OracleSettings, settings.DesignSettings],
    ("labels", "attack"): [settings.OracleSettings, settings.DesignSettings],
    ("labels", "defend"): [settings.OracleSettings, settings.DefenceSettings, settings.SeasonRules],
}
OF_PYTHON_ALONE = {(("extract",), "near"), (("extract",), "confidence")}  # rarely used


def fields(model):
    return model.model_fields.items()


@pytest.mark.parametrize("model", PYTHON, ids=lambda model: model.__name__)
def test_an_argument_has_the_default_of_its_setting(model):
    names_found = set()
    for function in PYTHON[model]:
        parameters = inspect.signature(function).parameters
        for name, field in fields(model):
            if name in parameters:
                names_found.add(name)
                default = parameters[name].default
                assert field.is_required() == (default is inspect.Parameter.empty), name
                assert field.is_required() or default == field.default, name
    assert names_found == set(model.model_fields)


@pytest.mark.parametrize("model", PYTHON, ids=lambda model: model.__name__)
def test_an_argument_is_documented(model):
    documented = "\n".join(inspect.getdoc(function) for function in PYTHON[model])
    assert [name for name in model.model_fields if f"    {name}: " not in documented] == []


TABLES = (*PYTHON, settings.Plan, settings.DataPlan, settings.TargetPlan, settings.AccessPlan)


@pytest.mark.parametrize("model", TABLES, ids=lambda model: model.__name__)
def test_a_setting_has_a_description_and_a_valid_default(model):
    required = {name: 0.5 for name, field in fields(model) if field.is_required()}
    if not {name for name in required if model.model_fields[name].annotation is not float}:
        model.check(**required, **{name: field.default for name, field in fields(model) if name not in required})
    for name, field in fields(model):
        if name not in ("references", "imputer") or model is settings.Plan:
            assert re.match(r"[A-Z0-9]|\S+ \(|\"", field.description), name
            assert field.description.endswith((".", "…")), name


def beyond(field):
    """Values just outside the bounds of a setting."""
    limits = settings.bounds(field)
    return [limits[name] for name in ("gt", "lt") if name in limits] + [
        value
        for name, value in (("ge", limits.get("ge", 0) - 1), ("le", 2 * limits.get("le", 0) + 1))
        if name in limits
    ]


BOUNDED = [
    (model, name, value)
    for model in PYTHON
    for name, field in fields(model)
    for value in beyond(field)
    if value != float("inf")
]


@pytest.mark.parametrize(("model", "name", "value"), BOUNDED)
def test_a_value_out_of_bounds_is_refused_by_name(model, name, value):
    is_list = isinstance(model.model_fields[name].default, tuple)
    required = {"noise": 0.5} if name == "clip" else {}
    with pytest.raises(dv.InputError, match=rf"^{name}: must ") as caught:
        model.check(**required, **{name: (value,) if is_list else value})
    assert f"got {value!r}" in str(caught.value)


MAKERS = {
    references.Train: {"make_model": lambda: None},
    references.Custom: {"train": lambda records, seed: None},
    references.FineTune: {"base": "base"},
    references.LoRA: {},
    references.Private: {"noise": 1.0},
    labels.OracleSpec: {"n": 10},
    targets.Decoding: {},
    extraction.Cut: {},
    ExaminationRules: {},
}


@pytest.mark.parametrize(
    ("maker", "name", "value"),
    [(PYTHON[model][0], name, value) for model, name, value in BOUNDED if PYTHON[model][0] in MAKERS],
)
def test_what_is_made_in_python_has_the_bounds_of_the_settings(maker, name, value):
    with pytest.raises(dv.InputError, match=rf"{name}: must "):
        maker(**MAKERS[maker] | {name: value})


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_an_option_has_the_default_and_the_description_of_its_setting(words):
    command = typer.main.get_command(cli.app)
    for word in words:
        command = command.get_command(None, word)
    options = {option.name: option for option in command.params}
    no_options = " ".join(RELOCATED[" ".join(words)]).split()
    for model in COMMANDS[words]:
        for name, field in fields(model):
            if name not in options:
                assert name in no_options or (words, name) in OF_PYTHON_ALONE or model is settings.ColumnNames
                continue
            option = options[name]
            assert option.opts[0] == f"--{name.replace('_', '-')}"
            assert option.help.startswith(field.description.replace("``", "")), name
            assert all(choice in option.help for choice in settings.choices(field)), name
            assert settings.format_limits(field).lower() in option.help.lower(), name
            default = list(field.default) if isinstance(field.default, tuple) else field.default
            if model is settings.ColumnNames:
                assert option.default in (None, []), name
            else:
                assert default in (option.default, PydanticUndefined) or str(default) == option.default, name


@pytest.mark.parametrize("records", ["images", "table", "text"])
@pytest.mark.parametrize("count", [0, 4])
def test_the_comments_of_a_starting_plan_are_the_descriptions(records, count):
    answers = plan.complete_answers({"records": records, "references": count, "model": "m.skops"}, None)
    text = plan.format_starting_plan(answers)
    section_models = {"": settings.Plan, "target": settings.TargetPlan, "data": settings.DataPlan}
    section_models["references"] = settings.FineTunePlan if records == "text" else settings.TrainPlan
    model, n_comments = section_models[""], 0
    for line in text.splitlines():
        if table := re.match(r"\[(\w+)\]", line):
            model = section_models[table[1]]
        elif key := re.match(r"(?:# )?(\w+) = .*?  # (.*)", line):
            assert key[2] == model.model_fields[key[1]].description
            n_comments += 1
    assert n_comments >= 9


def test_several_mistakes_are_named_at_once():
    with pytest.raises(dv.InputError) as caught:
        settings.ResolvedAuditSettings.check(calibration=1.5, seed=-1, duplicates="dorp", fpr=0.1)
    assert str(caught.value).split("; ") == [
        "seed: must be at least 0, got -1",
        "fpr: a list is needed, such as [0.1], got 0.1",
        "duplicates: 'dorp' is unknown",
        "did you mean 'drop'? (known: error, drop, keep)",
        "calibration: must lie in (0, 1), got 1.5",
    ]


def test_the_command_line_names_the_option(divulge):
    for words, message in (
        (("identify", "t.csv", "--calibration", "u.csv", "--fdr", "2"), "--fdr: must lie in (0, 1), got 2.0"),
        (("labels", "capacity", "--n", "9", "--submission", "x"), "--submission: 'x' is unknown"),
        (("canaries", "plan", "--claim-epsilon", "1", "--true-epsilon", "2", "--power", "1"), "--power: must lie in"),
        (("power", "--candidates", "9", "--members", "3", "--auc", "0.9", "--seed", "-1"), "--seed: must be at least"),
    ):
        code, _, err = divulge(*words)
        assert code == 2
        assert err.startswith(f"divulge: {message}")
