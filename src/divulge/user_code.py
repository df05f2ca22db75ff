"""The object that a user names as ``"package.module:attribute"``, from a file of theirs or from the environment.

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
    """What a name stands for.

    Args:
        value: the object.
        origin: where its module came from: the path of a file, or "the environment".
    """

    value: Any
    origin: str


def import_object(name: Any, key: str, folder: Path | None = None) -> ImportedObject:
    """The object that ``"package.module:attribute"`` names.

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
    if not all(part.isidentifier() for part in [*module.split("."), *attribute.split(".")]):
        raise InputError(f"{key}: 'package.module:callable' is needed, got {format_value(name)}")
    top = module.split(".")[0]
    file = None if folder is None else _beside(top, folder.resolve())
    if file is not None and (other := _installed(top)) and not _same(other, file):
        raise InputError(
            f"{key}: {name!r} could be {file} or {_place(other)}, which the environment has under the same name; "
            "rename the file"
        )
    with errors.user_code_errors(f"{key}: {name!r}"):
        value: Any = _module(module, key) if file is None else _own(module, top, file, key)
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise InputError(f"{key}: {name!r} cannot be imported ({module} has no attribute {part!r})")
        value = getattr(value, part)
    return ImportedObject(value, "the environment" if file is None else str(file))


def _module(module: str, key: str) -> Any:
    """The module, once Python can find it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):  # it, and not what it imports itself
            raise InputError(f"{key}: {module} cannot be imported ({error})") from None
        raise


def _own(module: str, top: str, file: Path, key: str) -> Any:
    """The user's module, run from its file once."""
    needed = _needed(top, file)
    stale = {name for name, path in needed.items() if name in sys.modules and _file(sys.modules[name]) != path}
    for name in [name for name in sys.modules if name.split(".")[0] in stale]:  # namesakes in another plan's folder
        del sys.modules[name]
    with _found(needed) as files:
        loaded = _module(module, key)
        for name in files:  # what functions import only when they are called
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    return loaded


def _needed(top: str, file: Path) -> dict[str, Path]:
    """The module and what it imports from beside it, and that in turn: top-level names and their files."""
    files, waiting = {top: file}, [file]
    while waiting:
        for name in _imports(waiting.pop()):
            if name not in files and (path := _beside(name, file.parent)) and not _installed(name):
                files[name] = path
                waiting.append(path)
    return files


def _imports(file: Path) -> Iterator[str]:
    """Top-level names that a file, or any file of a package, imports anywhere."""
    for path in sorted(file.rglob("*.py")) if file.is_dir() else [file]:
        with contextlib.suppress(SyntaxError, ValueError, RecursionError):  # running it says so, and where
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, ast.Import):
                    yield from (alias.name.split(".")[0] for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                    yield node.module.split(".")[0]


def _beside(name: str, folder: Path) -> Path | None:
    """The file or package of that name in a folder."""
    for path in (folder / name, folder / f"{name}.py"):
        if path.is_file() if path.suffix else any(path.glob("*.py")):
            return path
    return None


def _installed(name: str) -> ModuleSpec | None:
    """Where Python itself would find a module; None for what was run from a user's file."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # __main__ has no spec
        return None
    return None if spec is None or _file(spec) else spec


def _same(spec: ModuleSpec, file: Path) -> bool:
    """Whether Python would find the very file, as it does when started in its folder."""
    places = [spec.origin or "", *(spec.submodule_search_locations or ())]
    return str(file) in {str(Path(place).resolve()) for place in places}


def _place(spec: ModuleSpec) -> str:
    return spec.origin or ", ".join(spec.submodule_search_locations or ()) or spec.name


class _Loader(SourceFileLoader):
    """Compiles the source that stands there: a compiled file beside it could say something else."""

    def path_stats(self, path: Any) -> Any:
        """There is nothing to compare a compiled file with, so none is read or written."""
        raise OSError(path)


def _file(module: Any) -> Path | None:
    """The user's file or package that a module, or its spec, was made from; None for the environment's."""
    spec = module if isinstance(module, ModuleSpec) else getattr(module, "__spec__", None)
    state = getattr(spec, "loader_state", None)
    return state if isinstance(state, Path) else None


class _Finder:
    """Finds the modules of some files, and is asked after every other finder."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self.files = files

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """How to make a module from its file."""
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
def _found(files: Mapping[str, Path]) -> Generator[Mapping[str, Path]]:
    finder = _Finder(files)
    sys.meta_path.append(finder)
    importlib.invalidate_caches()
    try:
        yield files
    finally:
        sys.meta_path.remove(finder)


@dataclass(frozen=True, slots=True)
class UserModules:
    """The modules run from users' files; in another process they are run again, before what needs them is read.

    Args:
        files: name and path of each.
    """

    files: Sequence[tuple[str, str]]

    def __reduce__(self) -> Any:
        return _again, (self.files,)


def loaded_user_modules() -> UserModules:
    """Those of this process."""
    files = {name: _file(module) for name, module in list(sys.modules.items())}
    return UserModules([(name, str(file)) for name, file in files.items() if file is not None])


def _again(files: Sequence[tuple[str, str]]) -> UserModules:
    with _found({name: Path(path) for name, path in files}):
        for name, _ in files:
            importlib.import_module(name)
    return UserModules(files)
