"""The command line in unusual environments: names that are not UTF-8, a full disk, modules of the same name."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap

import numpy as np
import polars as pl
import pytest

from divulge import store, tables
from run_directories import write_audit, write_identification

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="file names of any bytes, and limits of a process")

ODD = os.fsdecode(b"odd\xff")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    write_audit(folder / "audit")
    write_identification(folder / "identification")
    return folder


def one_line(code, err, *words):
    assert code in (0, 1, 2, 3), err
    assert "internal error" not in err
    assert code == 0 or len(err.splitlines()) <= 1
    assert all(word in err for word in words), err


def test_folders_and_files_whose_names_are_not_utf8(runs, tmp_path, divulge):
    tables = tmp_path / ODD
    shutil.copytree(runs / "identification-tables", tables)
    (tables / "candidates.csv").rename(tables / f"{ODD}.csv")
    words = [tables / f"{ODD}.csv", "--calibration", tables / "calibration.csv", "--score", "score"]
    code, _, err = divulge("identify", *words, "--out", tmp_path / f"{ODD}-out")
    assert code == 0, err
    for command in (("report",), ("decide", "--fdr", "0.2"), ("report", "--format", "json")):
        code, _, err = divulge(command[0], tmp_path / f"{ODD}-out", *command[1:])
        assert code == 0, err
    shutil.copytree(runs / "audit", tmp_path / f"{ODD}-audit")
    for command in (
        ["report"],
        ["gate", "--max", "auc:0.55"],
        ["decide", "--fpr", "0.1"],
        ["report", "--format", "csv"],
    ):
        code, _, err = divulge(command[0], tmp_path / f"{ODD}-audit", *command[1:])
        one_line(code, err)
        assert code in (0, 1), err


@pytest.mark.parametrize(
    "command",
    [
        ("audit", f"{ODD}.toml"),
        ("check", ODD),
        ("report", ODD),
        ("report", "AUDIT", "--format", ODD),
        ("decide", "AUDIT", "--fpr", ODD),
        ("gate", "AUDIT", "--max", ODD),
        ("compare", ODD, "AUDIT"),
        ("view", ODD),
        ("list", "--for", ODD),
        ("pool", "ls", ODD),
        ("pool", "verify", ODD),
        ("score", ODD, "--model", ODD, "--out", ODD),
        ("extract", ODD, "--members", ODD, "--nonmembers", ODD),
        ("weights", ODD, "--candidates", ODD),
        ("canaries", "make", ODD, "--out", ODD),
        ("labels", "design", "--labels", ODD),
        (ODD,),
    ],
)
def test_arguments_that_are_not_utf8(runs, tmp_path, divulge, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    code, _, err = divulge(*[str(runs / "audit") if word == "AUDIT" else word for word in command])
    one_line(code, err)
    assert code == 2


def test_a_working_directory_and_an_environment_that_are_not_utf8(runs, tmp_path, divulge, monkeypatch):
    folder = tmp_path / ODD
    folder.mkdir()
    shutil.copytree(runs / "audit", folder / "run")
    process = subprocess.run(
        [sys.executable, "-m", "divulge", "report", "run"],
        cwd=folder, env=os.environ | {"TMPDIR": str(folder), "HOME": str(folder), "COLUMNS": ODD},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    one_line(process.returncode, process.stderr)
    assert process.returncode == 0, process.stderr
    monkeypatch.setenv("SOURCE_DATE_EPOCH", ODD)
    code, _, err = divulge("report", folder / "run")
    one_line(code, err)
    assert code == 2, err


@pytest.fixture
def limited():
    """Nothing can be written beyond so many bytes of a file: what a full disk does, at any point."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def limit(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_disk_that_is_full_at_any_point_of_a_table_is_named(tmp_path, limited):
    rng = np.random.default_rng(0)
    frame = tables.from_arrays(
        {"x": rng.normal(size=20_000), "name": np.array([f"n{i}" for i in range(20_000)], object)}
    )
    path = tmp_path / "table.parquet"
    writers = {
        "a frame": lambda out: tables.write_parquet(frame, out),
        "a scan": lambda out: tables.write_parquet(pl.concat([frame, frame]).lazy(), out),
        "csv": lambda out: tables.write_csv(frame, out),
    }
    for write in writers.values():
        store.write_file(path, write)
        complete = path.read_bytes()
        for size in [0, 1, 3, *np.linspace(4, len(complete) - 1, 12).astype(int).tolist()]:
            limited(size)
            try:
                with pytest.raises(OSError, match="File too large") as caught:
                    store.write_file(path, write)
            finally:
                limited(resource.RLIM_INFINITY)
            assert caught.value.filename == str(path)
            assert path.read_bytes() == complete  # what was there stays
            assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_disk_that_is_full_at_any_point_of_a_command_is_named_and_loses_nothing(runs, tmp_path, divulge, limited):
    commands = {
        "identification": [["decide", "--fdr", "0.2"], ["report"]],
        "audit": [
            ["report"],
            ["report", "--format", "parquet"],
            ["report", "--format", "csv"],
            ["report", "--format", "json"],
        ],
    }
    for command_name, words in commands.items():
        run = tmp_path / command_name
        shutil.copytree(runs / command_name, run)
        before = {path.name: path.read_bytes() for path in run.iterdir()}
        for word in words:
            for size in (0, 100, 1000, 4000):
                limited(size)
                try:
                    code, _, err = divulge(word[0], run, *word[1:])
                finally:
                    limited(resource.RLIM_INFINITY)
                assert code == 2, (word, size, err)
                one_line(code, err, str(run), "File too large")
                assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def test_an_identification_on_a_full_disk_is_made_when_there_is_room(runs, tmp_path, divulge, limited):
    tables = runs / "identification-tables"
    words = ["identify", tables / "candidates.csv", "--calibration", tables / "calibration.csv", "--score", "score"]
    for size in (0, 300, 1500, 3000, 10_000, 100_000):
        limited(size)
        try:
            code, _, err = divulge(*words, "--out", tmp_path / "run")
        finally:
            limited(resource.RLIM_INFINITY)
        assert code == 2
        one_line(code, err, "File too large", str(tmp_path))
    assert divulge(*words, "--out", tmp_path / "run")[0] == 0
    assert pl.read_parquet(tmp_path / "run" / "selection.parquet").height == 200


# What Python itself imports before any module that `-m` names is out of reach.
NAMESAKES = (
    *("json", "typing", "dataclasses", "random", "socket", "logging", "tempfile", "hashlib", "pickle", "subprocess"),
    *("numpy", "scipy", "typer", "rich", "polars", "pydantic", "jinja2", "torch", "sklearn", "joblib", "ray"),
    *("multiprocessing", "concurrent", "filelock", "safetensors", "transformers", "divulge_plan_helper", "tomllib"),
)


@pytest.fixture
def namesakes(tmp_path):
    """A folder of modules that leave a mark when they are imported."""
    folder = tmp_path / "downloads"
    folder.mkdir()
    for name in NAMESAKES:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'a').write({name!r} + chr(10))\n")
    return folder


def python(folder, *arguments):
    """A fresh Python in a folder, started as anybody would."""
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=bare, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("start", [("-mdivulge",), ("SCRIPT",)])
def test_nothing_is_imported_from_the_current_folder(namesakes, tmp_path, runs, start):
    script = tmp_path / "bin" / "divulge"
    script.parent.mkdir()
    script.write_text("from divulge.cli import main\nmain()\n")
    begun = [str(script) if word == "SCRIPT" else word for word in start]
    result = python(namesakes, *begun, "report", str(runs / "audit"), "--to", str(tmp_path / "page.html"))
    assert result.returncode == 0, result.stderr
    assert not (tmp_path / "mark").exists(), (tmp_path / "mark").read_text()


def test_no_worker_imports_from_the_current_folder(namesakes, tmp_path):
    rng = np.random.default_rng(0)
    plans = tmp_path / "plans"
    plans.mkdir()
    for name in ("members", "nonmembers", "population"):
        np.savez(plans / f"{name}.npz", x=rng.normal(size=(60, 3)).astype(np.float32), y=rng.integers(0, 2, 60))
    (plans / "my_models.py").write_text(
        "import os\n"
        "def load(x):\n    return x[:, :2]\n"
        "def train(records, seed):\n"
        f"    open({str(tmp_path / 'trained')!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
        "    return load\n"
    )
    (plans / "plan.toml").write_text(
        textwrap.dedent("""
        recipes = ["lira"]
        fpr = [0.2]
        [target]
        model = "my_models:load"
        [data]
        members = "members.npz"
        nonmembers = "nonmembers.npz"
        population = "population.npz"
        [references]
        train = "my_models:train"
        count = 2
        engine = "processes"
        workers = 2
        """)
    )
    command = [sys.executable, "-m", "divulge", "audit", str(plans / "plan.toml"), "--out", str(tmp_path / "run")]
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    process = subprocess.Popen(command, cwd=namesakes, env=bare, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    _, error = process.communicate()
    assert process.returncode == 0, error
    assert str(process.pid) not in (tmp_path / "trained").read_text().split(), "models were to be trained by workers"
    assert not (tmp_path / "mark").exists(), (tmp_path / "mark").read_text()


def test_a_tool_of_the_users_own_keeps_its_folder(tmp_path):
    (tmp_path / "mytool").mkdir()
    (tmp_path / "mytool" / "__init__.py").write_text("import divulge\nimport beside\n")
    (tmp_path / "mytool" / "__main__.py").write_text("import beside\nprint(beside.WORD)\n")
    (tmp_path / "beside.py").write_text("WORD = 'here'\n")
    assert python(tmp_path, "-m", "mytool").stdout == "here\n"
