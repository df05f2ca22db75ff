"""Options of the command line, generated from the settings of `divulge.settings`."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import re
import time
import types
import typing
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer import core as typer_core

from divulge import settings
from divulge.errors import InputError
from divulge.settings import ColumnNames, OracleSettings, Settings

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

Checked = TypeVar("Checked", bound=Settings)

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Also print all notes and further tables.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is finished in the folder.")]
RunFolder = Annotated[
    Path | None, typer.Option(help="Run directory to write (default: runs/NAME-TIME).", show_default=False)
]
ReportFolder = Annotated[Path | None, typer.Option(help="Run directory to write, with the report.")]
ShowRecords = Annotated[
    bool, typer.Option("--show-records/--no-show-records", help="Whether the report shows and names single records.")
]
Trust = Annotated[list[str] | None, typer.Option(help="A type to trust in a .skops target; may be repeated.")]
RecordColumns = Annotated[ColumnNames, ("label", "id", "text", "drop")]
"""The columns of a table of records or documents."""
ChatColumns = Annotated[ColumnNames, ("id", "text", "messages", "prompt", "answer")]
"""The columns of a table of documents, chats, or prompts with answers."""
ScoredColumns = Annotated[ColumnNames, ("id", "text", "messages", "prompt", "answer", "tokens")]
"""The same, where their tokens are scored."""
Oracle = Annotated[OracleSettings, ("metric", "classes", "clip", "decimals", "noise", "noise_kind", "submission")]
"""What is declared of a scoring endpoint."""
SplitOracle = Annotated[
    OracleSettings, ("metric", "classes", "clip", "decimals", "noise", "noise_kind", "submission", "scored")
]
"""The same, of one that may score a part of the rows."""

_CHATS = "messages prompt answer tokens"
_SPECIFICATION = {"class_weight": "divulge.labels.OracleSpec(NAME=…)"}
_LABEL_PLAN = {"method": "divulge.labels.design(spec, NAME)"}
_TRUST = {"trust": "`NAME` in the plan's [target]"}
RELOCATED: Mapping[str, Mapping[str, str]] = {
    "init": {"known": "--candidates FILE, where it is not known which records were used"},
    "check": _TRUST,
    "audit": _TRUST | {"seed": "`NAME` in the plan; of the demo, divulge.demo.audit_images(…, NAME=…)"},
    "decide": {
        "method": "NAME= of dv.load(RUN).outcome(RECIPE).selection, or of divulge.identification.redecide",
        "promise": "NAME= of dv.load(RUN).outcome(RECIPE).selection",
        "recipe": "dv.load(RUN).outcome(RECIPE).selection(fpr=…)",
    },
    "defend": _TRUST | {"max_loss": "`NAME` in the plan's [defend]"},
    "gate": {"by": "`NAME` in the plan's [gate], or dv.gate(…, NAME=…)"},
    "identify": {
        "known recipes task unseen_classes": "`NAME` in the plan, or dv.identify(…, NAME=…)",
        "factory outputs": "`NAME` in the plan's [target]",
        "features group person": "`NAME` in the plan's [data]",
        _CHATS: "`NAME` in the plan's [data], or an option of divulge identify score",
        "by eta lam method": "`NAME` in the plan's [identify], or dv.identify(…, NAME=…)",
    },
    "score": {
        "device bos stride truncation budget": "divulge.targets.folders.load_folder(…, NAME=…)",
        "lowercase shard": "divulge.identification.document_scoring.ScoringOptions(NAME=…)",
        "engine": "divulge.identification.document_scoring.score_on_ray",
    },
    "power": {"method wanted": "divulge.decisions.planning.calibration(…, NAME=…)"},
    "extract": {
        "place": "divulge.extraction.Cut(NAME=…)",
        "draws": "divulge.extraction.measure(…, NAME=…)",
        "temperature top_k top_p": "divulge.targets.Decoding(NAME=…), as decoding= of divulge.extraction.measure",
        "device bos length": "divulge.targets.folders.load_folder(…, NAME=…)",
    },
    "forget": {
        "confidence fdr": "`NAME` in the plan's [forget], or dv.forget(…, NAME=…)",
        "device seed task": "`NAME` in the plan, or dv.forget(…, NAME=…)",
        "outputs": "`NAME` in the plan's [target], or dv.forget(…, NAME=…)",
        f"group person {_CHATS}": "`NAME` in the plan's [data]",
        "other": "dv.forget(…, NAME=…)",
    },
    "attribute": _TRUST,
    "synthetic": {
        "attributes confidence fdr fpr margin seed text": "`NAME` in the plan, or dv.synthetic.audit(…, NAME=…)"
    },
    "weights": {
        "band signal": "divulge.auditing.weights.ExaminationRules(NAME=…)",
        "leaked": "divulge.auditing.weights.examine_weights(…, NAME=…)",
        "decimals penalises_intercept": "divulge.margin.Publication(…, NAME=…), for dv.examine_cohorts",
        "algorithm": "divulge.reconstruction.univariate(net, margin, NAME)",
        "truth": "divulge.reconstruction.univariate(net, margin).candidates, to be compared",
    },
    "inspect": {
        "output_records": "`NAME` in the plan's [inspect]",
        f"group person {_CHATS}": "`NAME` in the plan's [data]",
    },
    "canaries make": {"design own": "dv.canaries.make(…, NAME=…)"},
    "canaries audit": {
        "population outputs sides confidence recipe device seed": "dv.canaries.audit(…, NAME=…)",
        "label id text drop": "dv.canaries.audit(…, training=records)",
    },
    "canaries plan": {"sides confidence": "divulge.evaluation.canaries_needed(…, NAME=…)"},
    "canaries labels": _TRUST
    | {
        "confidence": "dv.canaries.label_privacy(…, NAME=…)",
        "seed": "`NAME` in the plan, or dv.canaries.label_privacy(…, NAME=…)",
    },
    "labels capacity": _SPECIFICATION,
    "labels design": _SPECIFICATION | _LABEL_PLAN,
    "labels simulate": _SPECIFICATION
    | _LABEL_PLAN
    | {
        "url header template key": "divulge.labels.HttpOracle, as oracle= of divulge.labels.simulate",
        "public scored": "divulge.labels.simulate(…, scored=…)",
    },
    "labels attack": _SPECIFICATION | _LABEL_PLAN | {"control": "divulge.labels.infer(…, NAME=…)"},
    "labels defend": _SPECIFICATION
    | {
        "coarse": "divulge.labels.menu(spec, decimals=…)",
        "scored": "divulge.labels.OracleSpec(NAME=…)",
    },
}
"""Command → names that are no options, because fewer than one user in a hundred needs them → where they are said."""


class NarrowHelp:
    """Help in as few columns as it takes, so that the explanations get the rest of a narrow terminal."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        parameters = [_narrow(parameter) for parameter in self.get_params(ctx)]  # ty: ignore[missing-attribute]
        vars(self)["get_params"] = lambda _: parameters
        try:
            super().format_help(ctx, formatter)  # ty: ignore[missing-attribute] (of the Typer class beside it)
        finally:
            del vars(self)["get_params"]


def _narrow(parameter: Any) -> Any:
    """Return an option as help shows it: a switch without a type, its negation in its name, ranges in words."""
    shown = copy.copy(parameter)
    if getattr(shown, "is_flag", False):
        shown.metavar = ""
        if shown.secondary_opts:
            shown.opts, shown.secondary_opts = [f"--[no-]{shown.opts[0].removeprefix('--')}"], []
    if (getattr(shown, "min", None), getattr(shown, "max", None)) != (None, None):
        shown.metavar, shown.min, shown.max = "<int>", None, None
    return shown


class Group(NarrowHelp, typer_core.TyperGroup):
    """Commands that belong together."""


class Command(NarrowHelp, typer_core.TyperCommand):
    """A command, which says of a rare setting where it is."""

    full_name = ""

    def __init__(self, *args: Any, **values: Any) -> None:
        super().__init__(*args, **values)
        # Typer joins the lines of the first paragraph, and breaks all others where the docstring does.
        self.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in (self.help or "").split("\n\n"))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse what was typed.

        Raises:
            divulge.InputError: an option that a plan or Python has in its place.
        """
        command = self.full_name or str(self.name)
        places = {
            f"--{name.replace('_', '-')}": place.replace("NAME", name)
            for names, place in RELOCATED.get(command, {}).items()
            for name in names.split()
        }
        for typed in args:
            flag = typed.partition("=")[0].replace("--no-", "--")
            if flag in places:
                raise InputError(f"{flag}: no option of {ctx.command_path}; say it as {places[flag]}")
        return super().parse_args(ctx, args)


def subcommand(name: str) -> type[Command]:
    """Return the class of a command whose whole name has two words."""
    return type("Subcommand", (Command,), {"full_name": name})


def from_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter of a command that is a model of settings by an option for each of the settings.

    Of ``Annotated[Model, ("id", "text")]`` only these fields become options. Options of `ColumnNames` have no default,
    so that the command knows which columns the user named. An option that two models share is given to both.

    Examples:
        >>> @from_settings
        ... def area(size: settings.CanaryPlanSettings, unit: str = "m") -> None:
        ...     print(size.power, size.sides, unit)
        >>> area(power=0.9, unit="cm")
        0.9 both cm
        >>> list(inspect.signature(area).parameters)
        ['sides', 'confidence', 'power', 'unit']
    """
    parameters = inspect.signature(command, eval_str=True).parameters
    groups = {name: group for name, parameter in parameters.items() if (group := _find_group(parameter.annotation))}
    all_options: dict[str, inspect.Parameter] = {}
    for name, parameter in parameters.items():
        options = _make_options(*groups[name]) if name in groups else [parameter]
        all_options |= {option.name: option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options}

    @functools.wraps(command)
    def run(**given: Any) -> None:
        arguments = {name: value for name, value in given.items() if name in parameters and name not in groups}
        for name, (model, fields) in groups.items():
            values = {field: _parse(model.model_fields[field], given[field]) for field in fields if field in given}
            is_columns = issubclass(model, ColumnNames)
            arguments[name] = (
                model.from_options(**values)
                if is_columns
                else model.check(**{name: value for name, value in values.items() if value is not None})
            )
        command(**arguments)

    run.__annotations__ = {option.name: option.annotation for option in all_options.values()}
    run.__signature__ = inspect.Signature(list(all_options.values()))  # ty: ignore[missing-attribute] (read by inspect)
    return run


def setting(model: type[BaseModel], name: str, note: str = "", *flags: str) -> Any:
    """Return the option of one setting, for a command that declares it by hand; ``note`` is added to its help."""
    return typer.Option(
        *flags, help=_format_help(model.model_fields[name]) + (f" {note}" if note else ""), show_default=False
    )


def named_settings(context: typer.Context, settings: Settings) -> dict[str, Any]:
    """Return those of a command's settings that its user named; of the others, a plan's table or defaults decide."""
    return {name: getattr(settings, name) for name in type(settings).model_fields if is_named(context, name)}


def is_named(context: typer.Context, name: str) -> bool:
    """Return whether the user named an option, in place of its default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _find_group(annotation: Any) -> tuple[Any, tuple[str, ...]] | None:
    """Return the model of settings that an annotation is, and the names of its options."""
    model, *metadata = typing.get_args(annotation) if typing.get_origin(annotation) is Annotated else (annotation,)
    if not (inspect.isclass(model) and issubclass(model, Settings | ColumnNames)):
        return None
    return model, metadata[0] if metadata else tuple(model.model_fields)


def _make_options(model: Any, names: Sequence[str]) -> list[inspect.Parameter]:
    options = []
    for name in names:
        field = model.model_fields[name]
        default = None if issubclass(model, ColumnNames) else field.get_default()
        if field.is_required():
            default = inspect.Parameter.empty
        elif isinstance(default, tuple):
            default = list(default)
        flags = [f"--{name.replace('_', '-')}"] if default is False else []
        option = typer.Option(*flags, help=_format_help(field), show_default=default not in (None, []))
        option_type = _option_type(field.annotation)
        annotation: Any = option_type | None if default is None else option_type
        options.append(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=str(default) if option_type is str and isinstance(default, int | float) else default,
                annotation=Annotated[annotation, option],
            )
        )
    return options


def _option_type(annotation: Any) -> Any:
    """Return the type that the command line reads: a scalar, a list of scalars, or a text for anything else."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _option_type(parts[0])
    if origin in (list, tuple):
        entry: Any = _option_type(parts[0])
        return list[entry]
    if origin in (types.UnionType, typing.Union):
        option_types = {_option_type(part) for part in parts if part is not type(None)}
        return option_types.pop() if len(option_types) == 1 else str
    return annotation if annotation in (bool, int, float) else str


def _parse(field: FieldInfo, value: Any) -> Any:
    """Return the number that a text is, for a setting that is a whole number or a share."""
    if isinstance(value, str) and {int, float} <= _scalars(field.annotation):
        for option_type in (int, float):
            with contextlib.suppress(ValueError):
                return option_type(value)
    return value


def _scalars(annotation: Any) -> set[Any]:
    return {annotation} | {scalar for part in typing.get_args(annotation) for scalar in _scalars(part)}


def _format_help(field: FieldInfo) -> str:
    """Return the description of a setting, with its choices and bounds."""
    choices, limits = ", ".join(settings.choices(field)), settings.format_limits(field)
    sentences = [
        str(field.description).replace("``", ""),
        choices and f"One of: {choices}.",
        limits and f"{limits[0].upper()}{limits[1:]}.",
    ]
    return " ".join(filter(None, sentences))


def check_options(model: type[Checked], **values: Any) -> Checked:
    """Check options that a command declares by hand; errors name the option.

    Raises:
        divulge.InputError: values that do not fit.
    """
    try:
        return model.check(**values)
    except InputError as error:
        raise InputError(f"--{error}") from None


def run_folder(out: Path | None, name: str) -> Path:
    """Return the run directory that was asked for, or a fresh one under ``runs``."""
    return out if out is not None else Path("runs") / f"{name or 'run'}-{time.strftime('%Y%m%d-%H%M%S')}"


# A key of a plan wherever it stands, or what a message begins with.
_KEYS = re.compile(r"(?<![\w./-])(?:data|target|references)\.(?P<dotted>\w+)|^(?P<first>\w+)(?=: )")


def name_options(message: str, command: Any, arguments: Sequence[str]) -> str:
    """Return an error's message with options in place of keys of a plan and arguments of a function.

    Args:
        message: of an error; it may begin with the name of an argument, and hold keys such as ``data.text``.
        command: as Click knows it; the message of a command that takes a plan is left as it is.
        arguments: what the user typed, which is left as it is.
    """
    if any(parameter.name == "plan" for parameter in command.params):
        return message
    flags = {
        parameter.name: parameter.opts[0]
        for parameter in command.params
        if parameter.opts[0].startswith("--") and not parameter.is_flag
    }

    def replace(match: re.Match[str]) -> str:
        words, name = match[0], match["dotted"] or match["first"]
        if words == "target.model" and "target" in flags:  # where --model is another model's
            return flags["target"]
        return words if words in arguments else flags.get(name, words)

    return _KEYS.sub(replace, message)


@contextlib.contextmanager
def model_errors(option: str) -> Generator[None]:
    """Name this option in errors about a model that is loaded inside the block."""
    try:
        yield
    except InputError as error:
        raise InputError(re.sub(r"^(target\.)?(model|base): ", f"{option}: ", str(error))) from None
