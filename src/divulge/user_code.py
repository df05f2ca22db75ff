"""Import of objects that a user names as ``"package.module:attribute"``, from a file of theirs or from the environment.

The folder of a plan holds data too, and data may come from others. So it never joins Python's search path: a
``jinja2.py`` beside the data is never run. What is run is the file that the plan names, and what that file itself
imports from beside it, and of both only what has no namesake in the environment.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import sys
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from divulge import errors
from divulge.errors import InputError
from divulge.validation import format_value

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class ImportedObject:
    """An imported object.

    Args:
        value: the object.
        origin: where its module came from: the path of a file, or "the environment".
    """

    value: Any
    origin: str


def import_object(name: Any, key: str, folder: Path | None = None) -> ImportedObject:
    """Import the object that ``"package.module:attribute"`` names.

    A module that stands in ``folder`` (as ``module.py`` or a folder of that name) is run from there, every other one
    comes from the environment.

    Args:
        name: module and attribute.
        key: what to call the argument in errors.
        folder: where the user's own files are; None for the environment alone.

    Raises:
        divulge.InputError: not such a name, nothing there, or a file with a namesake in the environment.
        divulge.errors.UserCodeError: the module raised an error when it was run.

    Examples:
        >>> import_object("math:sqrt", "target.model").value(4.0)
        2.0
    """
    module, _, attribute = name.partition(":") if isinstance(name, str) else ("", "", "")
    if isinstance(name, str) and name.startswith(("http://", "https://")):
        raise InputError(
            f"{key}: {name} is an address, and how a server is asked about records only your own code knows: write a "
            "function that takes records and returns their probabilities, such as `def query(frame): return "
            "httpx.post(URL, json=frame.to_dicts()).json()` in remote.py, and name it as 'remote:query' (outputs = "
            "'probabilities'); the server of a language model is named by target.endpoint"
        )
    if not all(part.isidentifier() for part in [*module.split("."), *attribute.split(".")]):
        raise InputError(f"{key}: 'package.module:callable' is needed, got {format_value(name)}")
    top = module.split(".")[0]
    file = None if folder is None else _find_file(top, folder.resolve())
    # A namesake that is this very file is none: Python finds it when it is started in its folder.
    namesake = None if file is None else _find_in_environment(top)
    places = [namesake.origin or "", *(namesake.submodule_search_locations or ())] if namesake else []
    if namesake and str(file) not in {str(Path(place).resolve()) for place in places}:
        other_place = namesake.origin or ", ".join(namesake.submodule_search_locations or ()) or namesake.name
        raise InputError(
            f"{key}: {name!r} could be {file} or {other_place}, which the environment has under the same name; "
            "rename the file"
        )
    with errors.user_code_errors(f"{key}: {name!r}"):
        value: Any = _import_module(module, key) if file is None else _import_from_file(module, top, file, key)
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise InputError(f"{key}: {name!r} cannot be imported ({module} has no attribute {part!r})")
        value = getattr(value, part)
    return ImportedObject(value, "the environment" if file is None else str(file))


def _import_module(module: str, key: str) -> Any:
    """Import a module that Python can find."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):  # it, and not what it imports itself
            raise InputError(f"{key}: {module} cannot be imported ({error})") from None
        raise


def _import_from_file(module: str, top: str, file: Path, key: str) -> Any:
    """Import the user's module from its file, once."""
    imported = _find_imported_files(top, file)
    stale = {name for name, path in imported.items() if name in sys.modules and _user_file(sys.modules[name]) != path}
    for name in [name for name in sys.modules if name.split(".")[0] in stale]:  # namesakes in another plan's folder
        del sys.modules[name]
    with _importable(imported) as files:
        loaded = _import_module(module, key)
        for name in files:  # what functions import only when they are called
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    return loaded


def _find_imported_files(top: str, file: Path) -> dict[str, Path]:
    """Return the files of the module and of what it imports, directly or not, from beside it, by top-level name."""
    files, waiting = {top: file}, [file]
    while waiting:
        for name in _imported_names(waiting.pop()):
            if name not in files and (path := _find_file(name, file.parent)) and not _find_in_environment(name):
                files[name] = path
                waiting.append(path)
    return files


def _imported_names(file: Path) -> Iterator[str]:
    """Yield the top-level names that a file, or any file of a package, imports anywhere."""
    for path in sorted(file.rglob("*.py")) if file.is_dir() else [file]:
        with contextlib.suppress(SyntaxError, ValueError, RecursionError):  # running it says so, and where
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, ast.Import):
                    yield from (alias.name.split(".")[0] for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                    yield node.module.split(".")[0]


def _find_file(name: str, folder: Path) -> Path | None:
    """Return the file or package of that name in a folder."""
    for path in (folder / name, folder / f"{name}.py"):
        if path.is_file() if path.suffix else any(path.glob("*.py")):
            return path
    return None


def _find_in_environment(name: str) -> ModuleSpec | None:
    """Return where Python itself would find a module; None for what was run from a user's file."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # __main__ has no spec
        return None
    return None if spec is None or _user_file(spec) else spec


class _Loader(SourceFileLoader):
    """Loader that compiles the source: a compiled file beside it could hold something else."""

    def path_stats(self, path: Any) -> Any:
        """Raise, so that no compiled file is read or written."""
        raise OSError(path)


def _user_file(module: Any) -> Path | None:
    """Return the user's file or package that a module, or its spec, comes from; None for the environment's."""
    spec = module if isinstance(module, ModuleSpec) else getattr(module, "__spec__", None)
    state = getattr(spec, "loader_state", None)
    return state if isinstance(state, Path) else None


class _Finder:
    """Finder of the modules of some files, asked after every other finder."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self.files = files

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return the spec of a module from its file."""
        file = self.files.get(name)
        if file is None:
            return None
        source = file / "__init__.py" if file.is_dir() else file
        loader = _Loader(name, str(source)) if source.is_file() else None
        spec = ModuleSpec(name, loader, origin=str(source), is_package=file.is_dir(), loader_state=file)
        spec.has_location = loader is not None
        if file.is_dir():
            spec.submodule_search_locations = [str(file)]
        return spec


@contextlib.contextmanager
def _importable(files: Mapping[str, Path]) -> Generator[Mapping[str, Path]]:
    finder = _Finder(files)
    sys.meta_path.append(finder)
    importlib.invalidate_caches()
    try:
        yield files
    finally:
        sys.meta_path.remove(finder)


@dataclass(frozen=True, slots=True)
class UserModules:
    """Modules run from users' files; when unpickled in another process, they are run again there.

    Args:
        files: name and path of each.
    """

    files: Sequence[tuple[str, str]]

    def __reduce__(self) -> Any:
        return _import_again, (self.files,)


def loaded_user_modules() -> UserModules:
    """Return the modules that this process ran from users' files."""
    files = {name: _user_file(module) for name, module in list(sys.modules.items())}
    return UserModules([(name, str(file)) for name, file in files.items() if file is not None])


def _import_again(files: Sequence[tuple[str, str]]) -> UserModules:
    with _importable({name: Path(path) for name, path in files}):
        for name, _ in files:
            importlib.import_module(name)
    return UserModules(files)
