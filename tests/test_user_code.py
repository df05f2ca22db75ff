"""What a plan names is run, from the file it means, and nothing else that lies in the folder."""

import pickle
import subprocess
import sys
import textwrap

import pytest

import divulge as dv
from divulge import user_code
from divulge.errors import UserCodeError


@pytest.fixture(autouse=True)
def as_before():
    before, path = set(sys.modules), list(sys.path)
    yield
    assert sys.path == path
    assert not [finder for finder in sys.meta_path if isinstance(finder, user_code._Finder)]
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(folder, **files):
    for name, text in files.items():
        path = folder / f"{name.replace('__in__', '/')}.py"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(textwrap.dedent(text))


def boom(folder, *names):
    """Modules that leave a mark when they are run."""
    write(folder, **{name: f"open({str(folder / 'mark')!r}, 'w').close()" for name in names})


def test_the_named_file_is_run_from_the_folder_and_nothing_beside_it(tmp_path):
    write(tmp_path, my_models="def make():\n    return 'made'\n")
    boom(tmp_path, "jinja2", "sitecustomize", "xformers", "unnamed")
    imported = user_code.import_object("my_models:make", "target.factory", tmp_path)
    assert imported.value() == "made"
    assert imported.origin == str(tmp_path / "my_models.py")
    assert not (tmp_path / "mark").exists()


def test_in_a_fresh_process_data_shadow_nothing_and_missing_modules_stay_missing(tmp_path):
    """As a plan is run: libraries that look for modules, there or not, never find those beside the data."""
    write(tmp_path, my_models="import json\ndef make():\n    return json.dumps(1)\n")
    boom(tmp_path, "jinja2", "json", "cupy", "tomli_w", "lightgbm")
    code = (
        "import sys, pathlib; from divulge import user_code\n"
        f"print(user_code.import_object('my_models:make', 'key', pathlib.Path({str(tmp_path)!r})).value())\n"
        "import jinja2, tomli_w, lightgbm\n"
        "try:\n    import cupy\nexcept ImportError:\n    print('absent')\n"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert process.stdout == "1\nabsent\n"
    assert not (tmp_path / "mark").exists()


def test_a_file_with_a_namesake_in_the_environment_is_refused(tmp_path):
    boom(tmp_path, "jinja2", "json", "divulge")
    for name in ("jinja2:Template", "json:loads", "divulge.store:digest"):
        with pytest.raises(dv.InputError, match=rf"key: '{name}' could be .*{tmp_path}.* rename the file"):
            user_code.import_object(name, "key", tmp_path)
    assert not (tmp_path / "mark").exists()


def test_a_name_that_is_not_in_the_folder_comes_from_the_environment(tmp_path):
    imported = user_code.import_object("json.decoder:JSONDecoder.decode", "key", tmp_path)
    assert imported.origin == "the environment"
    assert callable(imported.value)


def test_a_file_may_import_what_stands_beside_it_but_only_what_nobody_else_has(tmp_path):
    write(
        tmp_path,
        my_models="""
            import helper, json
            from cycle import again
            try:
                import optional_thing
            except ImportError:
                optional_thing = None

            def make():
                from late import VALUE
                return helper.WORD, VALUE, json.dumps(again()), optional_thing
        """,
        helper="from deeper import WORD",
        deeper="WORD = 'helped'",
        late="VALUE = 3",
        cycle="import my_models\ndef again():\n    return my_models.__name__\n",
        json="raise RuntimeError",
    )
    make = user_code.import_object("my_models:make", "key", tmp_path).value
    assert make() == ("helped", 3, '"my_models"', None)


def test_a_package_is_run_with_its_own_modules(tmp_path):
    write(tmp_path, pkg__in____init__="", pkg__in__models="from pkg.parts import WORD\nfrom . import parts\n")
    write(tmp_path, pkg__in__parts="import helper\nWORD = helper.WORD", helper="WORD = 'inside'")
    write(tmp_path, plain__in__models="WORD = 'no __init__'")
    assert user_code.import_object("pkg.models:WORD", "key", tmp_path).value == "inside"
    assert user_code.import_object("plain.models:WORD", "key", tmp_path).value == "no __init__"


def test_two_plans_may_use_one_name_for_different_files(tmp_path):
    for word in ("one", "two"):
        write(tmp_path / word, my_models="from helper import WORD", helper=f"WORD = {word!r}")
    for word in ("one", "two", "one"):
        assert user_code.import_object("my_models:WORD", "key", tmp_path / word).value == word


def test_a_compiled_file_is_never_read_in_place_of_the_source(tmp_path):
    import importlib.util
    import py_compile

    path = tmp_path / "my_models.py"
    path.write_text("WORD = 'evil'")
    cached = importlib.util.cache_from_source(str(path))
    py_compile.compile(str(path), cached, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    path.write_text("WORD = 'good'")
    assert user_code.import_object("my_models:WORD", "key", tmp_path).value == "good"


@pytest.mark.parametrize("name", ["", ":", "a:", ":b", "a b:c", "../x:y", "a..b:c", "/etc/x:y", None, 3])
def test_what_is_no_name_is_refused(tmp_path, name):
    with pytest.raises(dv.InputError, match=r"key: 'package\.module:callable' is needed"):
        user_code.import_object(name, "key", tmp_path)


def test_what_is_not_there_and_what_fails_are_told_apart(tmp_path):
    write(tmp_path, lacks="import torchx_absent", fails="\n\nraise ValueError('my own words')", broken="def (")
    with pytest.raises(dv.InputError, match=r"nowhere_to_be_found cannot be imported"):
        user_code.import_object("nowhere_to_be_found:make", "key", tmp_path)
    with pytest.raises(dv.InputError, match=r"'lacks:make': your code raised ModuleNotFoundError: .*torchx_absent"):
        user_code.import_object("lacks:make", "key", tmp_path)
    with pytest.raises(UserCodeError, match="'broken:make': your code raised SyntaxError"):
        user_code.import_object("broken:make", "key", tmp_path)
    with pytest.raises(UserCodeError, match="your code raised ValueError: my own words") as caught:
        user_code.import_object("fails:make", "key", tmp_path)
    traceback = caught.value.traceback()
    assert 'fails.py", line 3' in traceback
    assert "user_code.py" not in traceback
    write(tmp_path, fine="")
    with pytest.raises(dv.InputError, match=r"'fine:absent' cannot be imported \(fine has no attribute 'absent'\)"):
        user_code.import_object("fine:absent", "key", tmp_path)


def test_another_process_runs_the_files_again_before_it_reads_what_came_from_them(tmp_path):
    write(tmp_path, my_models="from helper import WORD\ndef make():\n    return WORD\n", helper="WORD = 'there'")
    make = user_code.import_object("my_models:make", "key", tmp_path).value
    sent = pickle.dumps([user_code.loaded_user_modules(), make])
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer)[1]())"
    process = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, check=True, cwd="/")
    assert process.stdout == b"there\n"


@pytest.mark.parametrize("name", ["absent_module:x", "absent_module.part:x", "json.absent:x"])
def test_a_module_that_is_not_there_is_named(name):
    with pytest.raises(dv.InputError, match="cannot be imported") as caught:
        user_code.import_object(name, "key")
    assert not isinstance(caught.value, UserCodeError)


def test_a_module_that_lacks_another_of_nearly_its_name_is_an_error_of_its_own(tmp_path):
    write(tmp_path, mine="import mine_too", yours="import you")
    for name in ("mine", "yours"):
        with pytest.raises(UserCodeError, match="your code raised ModuleNotFoundError"):
            user_code.import_object(f"{name}:x", "key", tmp_path)
