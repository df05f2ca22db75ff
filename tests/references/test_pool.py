"""The pool: what it keeps, when it is used, and what it finds out."""

import hashlib
import json
import os
import stat
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import divulge as dv
from divulge.cli import app
from divulge.references import Pool, Train
from divulge.references.pool import DamagedError


@pytest.fixture
def pool(tmp_path):
    filled_pool = Pool(tmp_path / "pool")
    for name in ("aa", "bb", "cc"):
        filled_pool.put(name, {"w": np.arange(6.0), "steps": np.array(3)}, {"model": 0, "records": 10})
    return filled_pool


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(bytes(content))


def test_what_was_put_comes_back(pool):
    result = pool.get("aa")
    assert result["w"].tolist() == list(range(6))
    assert int(result["steps"]) == 3
    assert pool.get("dd") is None
    assert [(e.key, e.state) for e in pool.entries(verify=True)] == [(name, "good") for name in ("aa", "bb", "cc")]


@pytest.mark.parametrize("position", [0, 9, -1])
def test_one_flipped_bit_is_found(pool, position):
    flip(pool.path / "bb.safetensors", position)
    with pytest.raises(DamagedError, match="checksum does not match"):
        pool.get("bb")
    assert [e.state for e in pool.entries(verify=True)] == ["good", "damaged", "good"]


def test_every_kind_of_damage_is_told_apart_from_good_models(pool):
    (pool.path / "aa.safetensors").write_bytes((pool.path / "aa.safetensors").read_bytes()[:-5])
    (pool.path / "bb.safetensors").unlink()
    described = json.loads((pool.path / "cc.json").read_text())
    (pool.path / "cc.json").write_text(json.dumps(described | {"about": {"model": 5}}, indent=2))
    pool.put("dd", {"w": np.ones(3)}, {})
    (pool.path / "dd.json").unlink()
    (pool.path / f".ee.json.{'0' * 32}.tmp").write_bytes(b'{\n  "ke')
    assert [e.state for e in pool.entries()] == ["damaged"] * 3 + ["unfinished"] * 2
    assert len(pool.prune()) == 5
    assert pool.entries() == ()


# What people keep beside their models, and what only looks as if a pool had written it.
FOREIGN = {
    "package.json": b'{"name": "site"}',
    "config.json": b"{}",
    "model.safetensors": b"\x08\0\0\0\0\0\0\0{}      ",
    "summary.json": b"half",
    "aa.json": b'{\n  "key": "ab",\n}',
    "empty.json": b"",
    "empty.safetensors": b"",
    "dd.safetensors": b"\0" * 8 + b'{"__metadata__":{"divulge":"cc"}}',
    f".aa.json.{'0' * 32}.tmp": b"another program's",
    ".aa.json.0.tmp": b"",
    "notes.tmp": b"",
    "UPPER.json": b'{\n  "key": "UPPER",',
}


def tree(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", FOREIGN)
def test_prune_removes_nothing_that_no_pool_wrote(pool, tmp_path, name):
    """In a folder that is not a pool nothing at all; in a pool its own damaged files alone."""
    foreign = tmp_path / "other"
    for folder in (foreign, pool.path):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(FOREIGN[name])
    with pytest.raises(dv.InputError, match="not a pool of models"):
        Pool(foreign).prune()
    with pytest.raises(dv.InputError, match="holds files that no pool writes"):
        Pool(foreign).put("aa", {"w": np.ones(1)}, {})
    assert tree(foreign) == {name: FOREIGN[name]}
    flip(pool.path / "cc.safetensors", -1)
    assert "cc" in [entry.key for entry in pool.prune()]
    assert (pool.path / name).read_bytes() == FOREIGN[name]


def test_links_are_not_followed(pool, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    for suffix in ("json", "safetensors"):
        (pool.path / f"bb.{suffix}").rename(outside / f"bb.{suffix}")
        (pool.path / f"bb.{suffix}").symlink_to(outside / f"bb.{suffix}")
    (pool.path / ".trials").symlink_to(outside)
    flip(outside / "bb.safetensors", -1)
    assert pool.prune(before="9") != ()
    assert sorted(tree(outside)) == ["bb.json", "bb.safetensors"]
    assert sorted(entry.state for entry in pool.entries()) == ["foreign"] * 3


def test_a_pool_made_before_pools_were_marked_is_one_if_all_in_it_are_models(pool):
    from safetensors.numpy import load, save

    for key in ("aa", "bb", "cc"):  # arrays did not name themselves
        content = save(load((pool.path / f"{key}.safetensors").read_bytes()))
        (pool.path / f"{key}.safetensors").write_bytes(content)
        record = json.loads((pool.path / f"{key}.json").read_text())
        record |= {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        plain = {name: value for name, value in record.items() if name != "checksum"}
        record["checksum"] = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
        (pool.path / f"{key}.json").write_text(json.dumps(record, indent=2))
    (pool.path / ".divulge-pool").unlink()
    (pool.path / "thesis.tex").write_text("mine")
    with pytest.raises(dv.InputError, match=r"not marked as a pool and holds files .* \(thesis.tex\)"):
        pool.prune()
    (pool.path / "thesis.tex").unlink()
    flip(pool.path / "bb.safetensors", -1)
    assert [entry.key for entry in pool.prune()] == ["bb"]
    assert sorted(tree(pool.path)) == [
        ".divulge-pool",
        ".lock",
        "aa.json",
        "aa.safetensors",
        "cc.json",
        "cc.safetensors",
    ]


def test_prune_asks_first(pool):
    folder = str(pool.path)
    flip(pool.path / "bb.safetensors", -1)

    def prune(*more, answer=None):
        return CliRunner().invoke(app, ["pool", "prune", folder, *more], input=answer)

    dry_run = prune("--dry-run")
    assert dry_run.exit_code == 0
    assert "bb" in dry_run.stdout
    assert "aa" not in dry_run.stdout
    assert isinstance(prune().exception, dv.InputError)  # nobody is there to answer
    assert isinstance(prune("--json").exception, dv.InputError)
    assert prune(answer="n\n").exit_code == 0
    assert len(pool.entries()) == 3
    result = prune(answer="y\n")
    assert result.exit_code == 0
    assert "removed from" in result.stdout
    assert [entry.key for entry in pool.entries()] == ["aa", "cc"]
    assert len(json.loads(prune("--older-than", "0", "--dry-run", "--json").stdout)) < 3
    assert prune("--older-than", "99999999999").exit_code == 2


@pytest.mark.skipif(os.name != "posix", reason="permissions of this kind are POSIX")
def test_only_its_owner_reads_a_pool_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        pool = Pool(tmp_path / "new" / "pool")
        pool.put("aa", {"w": np.ones(2)}, {})
    finally:
        os.umask(before)
    for path in (tmp_path / "new", *(tmp_path / "new").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize("damage", ["flip", "truncate", "json"])
def test_a_damaged_model_is_reported_and_trained_again(fit, networks, tmp_path, damage):
    train = Train(networks.mlp, 3, epochs=2)
    trained = fit(train, pool=tmp_path)
    victim = sorted(tmp_path.glob("*.safetensors"))[1]
    if damage == "flip":
        flip(victim, -3)
    elif damage == "truncate":
        victim.write_bytes(victim.read_bytes()[:100])
    else:
        victim.with_suffix(".json").write_text('{"key": "')
    repeat = fit(train, pool=tmp_path)
    assert repeat.reused == 2
    assert "damaged and is trained again" in repeat.warnings[0]
    assert (repeat.outputs[0] == trained.outputs[0]).all()
    assert fit(train, pool=tmp_path).reused == 3


def test_a_larger_run_trains_only_what_is_missing(fit, networks, tmp_path):
    small = fit(Train(networks.mlp, 4, epochs=2), pool=tmp_path)
    large = fit(Train(networks.mlp, 6, epochs=2), pool=tmp_path)
    assert (small.reused, large.reused) == (0, 4)
    assert (large.outputs[0][:4] == small.outputs[0]).all()
    assert (large.outputs[0] == fit(Train(networks.mlp, 6, epochs=2)).outputs[0]).all()


def test_the_key_is_everything_that_decides_the_result(fit, networks, records, tmp_path):
    base = Train(networks.mlp, 2, epochs=2)
    fit(base, pool=tmp_path)
    shifted = dv.Records(records.x + 1e-3, records.y)
    relabelled = dv.Records(records.x, np.roll(records.y, 1))

    def gelu():
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 24), torch.nn.GELU(), torch.nn.Linear(24, 4))

    changed_trainings = {
        "epochs": replace(base, epochs=3),
        "lr": replace(base, lr=0.03),
        "batch": replace(base, batch_size=64),
        "momentum": replace(base, momentum=0.8),
        "decay": replace(base, weight_decay=1e-3),
        "optimizer": replace(base, optimizer="adam"),
        "schedule": replace(base, schedule="cosine"),
        "function": replace(base, schedule=lambda done: 1.0),
        "augment": replace(base, augment=lambda x, rng: x),
        "precision": replace(base, precision="double"),
        "architecture": replace(base, make_model=gelu),
    }
    for name, changed in changed_trainings.items():
        assert fit(changed, pool=tmp_path).reused == 0, name
    assert fit(base, data=shifted, pool=tmp_path).reused == 0
    assert fit(base, data=relabelled, pool=tmp_path).reused == 0
    assert fit(base, seed=1, pool=tmp_path).reused == 0
    assert fit(replace(base, engine="serial", lr=0.02, device="cpu"), pool=tmp_path).reused == 2


def test_two_processes_share_a_pool(tmp_path):
    """Two writers of the same twenty keys, with different content: every pair of files fits together."""
    script = textwrap.dedent("""
        import sys, numpy as np
        from pathlib import Path
        from divulge.references.pool import Pool
        for turn in range(3):
            for key in range(20):
                Pool(Path(sys.argv[1])).put(f"k{key}", {"w": np.full(2000, float(sys.argv[2]))}, {"model": key})
    """)
    running = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path), str(i)], env=env()) for i in range(2)]
    assert [process.wait(120) for process in running] == [0] * 2
    assert [e.state for e in Pool(tmp_path).entries(verify=True)] == ["good"] * 20


def test_a_full_disk_is_a_clear_error_and_the_pool_stays_valid(tmp_path):
    """On a real file system of one megabyte, mounted in a namespace of its own."""
    script = textwrap.dedent("""
        import shutil, sys, numpy as np
        from pathlib import Path
        import divulge as dv
        from divulge.references.jobs import OutputStore
        from divulge.references.pool import Pool
        folder = Path(sys.argv[1])
        sheets = OutputStore(64, folder / "out")
        try:
            for model in range(64):
                sheets.write(model, [np.zeros(50_000)])
        except dv.InputError as error:
            print(error)
        shutil.rmtree(folder / "out")
        pool = Pool(folder / "pool")
        try:
            for key in range(100):
                pool.put(f"k{key:03d}", {"w": np.zeros(20_000)}, {"model": key})
        except dv.InputError as error:
            print(error)
        print(sorted({e.state for e in pool.entries(verify=True)}), len(pool.entries()))
    """)
    mount = f'mount -t tmpfs -o size=1m none {tmp_path} && exec "$@"'
    probe = subprocess.run(["unshare", "-Urm", "sh", "-c", mount, "sh", "true"], capture_output=True)
    if probe.returncode:
        pytest.skip("mounting a small file system is not allowed here")
    command = ["unshare", "-Urm", "sh", "-c", mount, "sh", sys.executable, "-c", script, str(tmp_path)]
    process = subprocess.run(command, capture_output=True, text=True, env=env(), check=True)
    assert "no space is left on the device" in process.stdout
    assert "['good'] 6" in process.stdout
    assert "out: cannot write to" in process.stdout


def env():
    return os.environ | {"PYTHONPATH": str(Path(dv.__file__).parents[1])}


def test_commands(pool):
    run = CliRunner().invoke
    folder = str(pool.path)
    listed = run(app, ["pool", "ls", folder, "--json"])
    assert [entry["key"] for entry in json.loads(listed.stdout)] == ["aa", "bb", "cc"]
    assert run(app, ["pool", "verify", folder]).exit_code == 0
    flip(pool.path / "bb.safetensors", -1)
    assert run(app, ["pool", "ls", folder]).exit_code == 0
    checked = run(app, ["pool", "verify", folder, "--json"])
    assert checked.exit_code == 5
    assert "checksum does not match" in checked.stdout
    assert [entry["key"] for entry in json.loads(run(app, ["pool", "prune", folder, "--yes", "--json"]).stdout)] == [
        "bb"
    ]
    assert run(app, ["pool", "verify", folder]).exit_code == 0
    assert len(json.loads(run(app, ["pool", "prune", folder, "--older-than", "1", "--yes", "--json"]).stdout)) == 0
    assert isinstance(run(app, ["pool", "ls", folder + "/missing"]).exception, dv.InputError)


def test_only_the_owner_may_read_or_write_the_lock_of_a_pool(pool):
    with pool.lock():
        assert stat.S_IMODE((pool.path / ".lock").stat().st_mode) == 0o600
