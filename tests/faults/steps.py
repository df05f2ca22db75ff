"""A command followed step by step: what lies on the disk before each change that it makes there.

Python announces every file that is opened for writing, renamed, removed or made, before it happens. A process that
is killed between two such steps leaves what lay there before the second. So one run, stopped at each step while the
directory is copied, shows all that ``kill -9`` could leave.
"""

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import sys
from pathlib import Path

from divulge import cli, run_directory

_NAMES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.chmod", "os.truncate", "os.symlink")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_listener = None


def _listen(event, arguments):
    """Tell the listener, if there is one and it is not at work itself, of a change to the working directory."""
    global _listener
    if _listener is None or (event != "open" and event not in _NAMES):
        return
    path, tell = arguments[0], _listener
    if event == "open" and not arguments[2] & _WRITING:
        return
    if isinstance(path, str | bytes | os.PathLike) and Path(os.fsdecode(path)).absolute().is_relative_to(Path.cwd()):
        _listener = None  # what it does itself is no step
        try:
            tell()
        finally:
            _listener = tell


sys.addaudithook(_listen)


def run_command(command, folder):
    """Exit code and words of a command of `divulge` that is run in ``folder``."""
    output = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = cli.run([*map(str, command)])
    return int(code), output.getvalue()


def followed(command, folder, before_change):
    """Run a command and call ``at`` before each of its changes to ``folder``; exit code and words."""
    global _listener
    _listener = before_change
    try:
        return run_command(command, folder)
    finally:
        _listener = None


def snapshots(command, folder, destination, meanwhile=lambda: None):
    """Copies of ``folder`` before every step of a command that finds it changed; ``beside`` is called at each."""
    copies, last_state = [], None

    def take_snapshot():
        nonlocal last_state
        if (now := state(folder)) != last_state:
            last_state = now
            copies.append(destination / f"{len(copies):04d}")
            shutil.copytree(folder, copies[-1], symlinks=True)
            meanwhile()

    return copies, followed(command, folder, take_snapshot)


def state(folder):
    """What lies in a folder: names without their random parts, and digests."""
    return {
        re.sub(r"[0-9a-f]{32}\.tmp|\.work\.[^/]+", "*", path): content
        for path, content in sorted(tree(folder).items())
        if not path.endswith(".lock")
    }


def tree(folder):
    """Digest of every file and None for every folder, by name."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        for path in folder.rglob("*")
        if path.is_file() or path.is_dir()
    }


# What differs between two runs of the same command, and nothing else may.
_VOLATILE = ("timings", "environment", "stored", "checksum")


def read_run(run):
    """Digests of the files of a finished run and of the runs inside it, but for their timings."""
    manifest = run_directory.read_manifest(run)
    assert manifest.state == "finished"
    assert not manifest.staged or not (run / manifest.staged).is_dir()  # no file is still to be moved
    results = {f"{part}/{name}": sha for part in manifest.parts for name, sha in read_run(run / part).items()}
    for name in manifest.files:
        content = (run / name).read_bytes()
        if name == "summary.json":
            content = json.dumps(_steady(json.loads(content))).encode()
        if name == "plan.toml":
            content = re.sub(rb"^folder = .*$", b"", content, flags=re.MULTILINE)
        if name == "report.html":
            content = re.sub(rb"<[^>]*>Time<.*?</table>", b"", content, flags=re.DOTALL)
        results[name] = hashlib.sha256(content).hexdigest()
    return results


def _steady(value):
    if isinstance(value, dict):
        return {name: _steady(part) for name, part in value.items() if name not in _VOLATILE}
    return value
