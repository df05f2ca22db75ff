"""`--help`: commands in panels, half of the options explained, the others named and accepted."""

import itertools
import json
import re

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from divulge.cli import COMMANDS, STEPS, app, load_command, options, run
from divulge.margin import ShallowReLU


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
    for name in ("score", "power", "reconstruct"):
        assert f"│ {name} " not in text
        assert f"Usage: divulge {name} " in help_text(name, "-h")  # accepted all the same


def test_a_command_says_of_itself_what_the_list_says_of_it():
    for name, entry in COMMANDS.items():
        assert load_command(name).help.startswith(entry.help), f"{name}: COMMANDS and its docstring begin differently"


def test_every_option_that_is_not_explained_exists_is_named_and_accepted():
    for name, words in options.ADVANCED.items():
        parameters = {parameter.name: parameter for parameter in LEAVES[name].params}
        assert set(words.split()) <= parameters.keys(), name
        text = " ".join(help_text(*name.split(), "-h").split())
        for word in words.split():
            assert parameters[word].hidden
            assert not parameters[word].required, "whoever must give it must be told of it"
            assert parameters[word].opts[0] in text.partition("Further options")[2]


def test_all_options_can_be_explained():
    text = help_text("extract", "--help-all")
    assert "Further options" not in text
    assert "Temperature of sampling" in " ".join(text.replace("│", " ").split())


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
    outputs = []
    for words in (["weights", net], ["reconstruct", net]):
        assert run([*words, "--margin", "1", "--json"]) == 0
        outputs.append(json.loads(capsys.readouterr().out))
    assert outputs[0] == outputs[1]
    for arguments, option in (
        (["--leaked", net], "--leaked"),
        (["--candidates", net, "--algorithm", "1"], "--algorithm"),
    ):
        assert run(["weights", net, *arguments]) == 2
        assert capsys.readouterr().err.startswith(f"divulge: {option}: ")
