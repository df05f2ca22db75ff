"""`--help`: commands in panels, every option explained; of what is no option, where it is said."""

import contextlib
import importlib
import inspect
import itertools
import json
import re

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import divulge
from divulge import identification, settings
from divulge.candidates import identify_records
from divulge.cli import COMMANDS, STEPS, app, load_command, options, run
from divulge.margin import ShallowReLU
from divulge.targets import CausalLM
from divulge.targets.folders import load_folder


def leaves(command, path=()):
    if not hasattr(command, "commands"):
        return {" ".join(path): command}
    inner = {word: command.get_command(None, word) for word in command.commands}
    return {name: leaf for word, each in inner.items() for name, leaf in leaves(each, (*path, word)).items()}


LEAVES = leaves(typer.main.get_command(app))


def help_text(*words):
    result = CliRunner().invoke(app, [*words], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert result.exit_code == 0, result.output
    return result.output


def test_commands_stand_in_panels_and_steps_and_former_names_in_none():
    text = help_text("--help")
    places = [text.index(panel) for panel in ("─ Audit ─", "─ Other questions ─", "─ Housekeeping ─")]
    assert places == sorted(places)
    for name in ("score", "power"):
        assert f"│ {name} " not in text
        assert f"Usage: divulge {name} " in help_text(name, "-h")  # accepted all the same


def test_a_command_says_of_itself_what_the_list_says_of_it():
    for name, entry in COMMANDS.items():
        assert load_command(name).help.startswith(entry.help), f"{name}: COMMANDS and its docstring begin differently"


TABLES = {
    "attribute": settings.AttributePlan,
    "data": settings.DataPlan,
    "defend": settings.DefendPlan,
    "forget": settings.ForgetPlan,
    "gate": settings.GatePlan,
    "identify": settings.SearchRules,
    "inspect": settings.InspectionSettings,
    "target": settings.TargetPlan,
}
PASSED_ON = {divulge.identify: (identification.identify, identify_records), load_folder: (CausalLM,)}  # by **options
NO_OPTIONS = [
    (command, name, place)
    for command, places in options.RELOCATED.items()
    for names, place in places.items()
    for name in names.split()
]


@pytest.mark.parametrize(("command", "name", "place"), NO_OPTIONS)
def test_whoever_types_what_is_no_option_is_told_where_it_is(command, name, place, capsys):
    assert name not in {parameter.name for parameter in LEAVES[command].params}
    flag = f"--{name.replace('_', '-')}"
    assert run([*command.split(), flag, "1"]) == 2
    told = capsys.readouterr().err
    assert told == f"divulge: {flag}: no option of divulge {command}; say it as {place.replace('NAME', name)}\n"


@pytest.mark.parametrize(("command", "name", "place"), NO_OPTIONS)
def test_what_is_no_option_is_where_its_message_says(command, name, place):
    if "`NAME` in the plan" in place and command != "synthetic":
        table = re.search(r"plan's \[(\w+)\]", place)
        model = settings.Plan if table is None else TABLES[table[1]]
        assert name in model.model_fields
    for dotted, arguments in re.findall(r"\b((?:dv|divulge)(?:\.\w+)+)(\([^)]*\))?", place):
        module, *names = [part.replace("dv", "divulge") for part in dotted.split(".")]
        found = importlib.import_module(module)
        for part in names:
            with contextlib.suppress(ImportError):
                importlib.import_module(f"{found.__name__}.{part}")
            found = getattr(found, part)
        takers = [found, *PASSED_ON.get(found, ())]
        taken = {parameter for taker in takers for parameter in inspect.signature(taker).parameters}
        if "NAME=" in arguments:
            assert name in taken


@pytest.mark.parametrize("name", ["", "pool", "labels", "canaries", *LEAVES])
def test_help_fits_a_terminal_of_80_columns(name):
    result = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "80", "NO_COLOR": "1"})
    lines = result.output.splitlines()
    assert max(map(len, lines)) <= 80
    assert not re.search(r"\w…", result.output), "a word is cut off"
    assert "<bool>" not in result.output, "a switch takes no value"
    assert "<=" not in result.output
    prose = itertools.takewhile(lambda line: not line.startswith("╭"), lines)
    for line, following in itertools.pairwise(prose):  # a line ends where the next word would not fit, or a paragraph
        assert not following.strip() or len(line.rstrip()) + len(following.split()[0]) > 77 or not line.strip()
    explained = [line[2:-2].rstrip() for line in lines if line.startswith("│")]
    assert max(line.rfind("  ") for line in explained) <= 45, "explanations have 30 columns at least"


@pytest.mark.parametrize("words", STEPS, ids=" ".join)
def test_a_step_is_typed_after_its_name_and_its_errors_name_its_options(words, capsys):
    assert f"Usage: divulge {' '.join(words)} " in help_text(*words, "-h")
    arguments = {
        "score": ["nothing.csv", "--model", "m", "--out", "o", "--length", "0"],
        "power": ["--candidates", "10", "--members", "5", "--auc", "0.9", "--fdr", "2"],
    }[words[1]]
    assert run([*words, *arguments]) == 2
    assert capsys.readouterr().err.startswith("divulge: --")


def test_weights_without_candidates_reads_points_off_them(tmp_path, capsys):
    rng = np.random.default_rng(0)
    ShallowReLU(rng.normal(size=(9, 1)), rng.normal(size=9), rng.normal(size=9)).to_safetensors(
        tmp_path / "net.safetensors"
    )
    net = str(tmp_path / "net.safetensors")
    assert run(["weights", net, "--margin", "1", "--json"]) == 0
    assert "candidates" in json.loads(capsys.readouterr().out)
    assert run(["weights", net, "--nonmembers", net]) == 2
    assert capsys.readouterr().err.startswith("divulge: --nonmembers: ")
