"""Errors that a user can cause; the module is light, so that the command line starts without NumPy."""

from __future__ import annotations

import contextlib
import sysconfig
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


class InputError(ValueError):
    """Invalid input; the message says what is wrong, why, and what would be right."""


class UserCodeError(InputError):
    """The user's own code raised an error; that error is its cause, and its traceback says where."""

    def traceback(self) -> str:
        """Return where in the user's code it was raised, without the calls of this package."""
        trace = traceback.TracebackException.from_exception(self.__cause__ or self)
        package = str(Path(__file__).parent)
        user_frames = [frame for frame in trace.stack if not frame.filename.startswith((package, "<frozen importlib"))]
        first = next((place for place, frame in enumerate(user_frames) if not _is_installed(frame.filename)), 0)
        trace.stack = traceback.StackSummary.from_list(user_frames[first:])
        return "".join(trace.format())


def _is_installed(file: str) -> bool:
    """Return whether a file is of a library or of Python itself: what the command line calls before the user's code."""
    return any(file.startswith(place) for place in {sysconfig.get_path(name) for name in ("stdlib", "purelib")})


class MissingExtraError(ImportError):
    """An optional dependency is needed that is not installed."""


def missing_extra(package: str, name: str) -> MissingExtraError:
    """Return the error for a missing optional dependency.

    Examples:
        >>> print(missing_extra("torch", "torch"))
        torch is not installed; it comes with the extra 'torch': pip install '.[torch]' in a clone of Divulge
    """
    return MissingExtraError(
        f"{package} is not installed; it comes with the extra '{name}': pip install '.[{name}]' in a clone of Divulge"
    )


@contextlib.contextmanager
def user_code_errors(name: str, *passed: type[Exception], hint: str = "") -> Generator[None]:
    """Turn errors of the user's code inside the block into `UserCodeError`, whose line names the argument.

    Args:
        name: of the argument that the code came in by.
        passed: errors that the code may raise to say something; they pass unchanged too.
        hint: what may have led to it, added to the line.

    Raises:
        UserCodeError: whatever it raised, as the cause; our own errors pass unchanged.

    Examples:
        >>> with user_code_errors("target"):
        ...     [][0]
        Traceback (most recent call last):
        divulge.errors.UserCodeError: target: your code raised IndexError: list index out of range
    """
    try:
        yield
    except (InputError, MissingExtraError, *passed):
        raise
    except Exception as error:
        message = (str(error).strip() or "no message").splitlines()[0]
        raise UserCodeError(
            f"{name}: your code raised {type(error).__name__}: {message}{hint and f' ({hint})'}"
        ) from error


# Optional packages and the extras they come with.
_EXTRAS = {
    "PIL": "images",
    "httpx": "http",
    "huggingface_hub": "text",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "opacus": "dp",
    "peft": "text",
    "ray": "ray",
    "starlette": "view",
    "uvicorn": "view",
    "tokenizers": "text",
    "torch": "torch",
    "transformers": "text",
    "vl_convert": "figures",
}


def as_missing_extra(error: BaseException) -> MissingExtraError | None:
    """Return the error for a missing optional dependency where that is what ``error`` is; None otherwise.

    Examples:
        >>> print(as_missing_extra(ModuleNotFoundError("No module named 'torch'", name="torch.nn")))
        torch is not installed; it comes with the extra 'torch': pip install '.[torch]' in a clone of Divulge
    """
    package = (getattr(error, "name", None) or "").partition(".")[0]
    return missing_extra(package, _EXTRAS[package]) if isinstance(error, ImportError) and package in _EXTRAS else None
