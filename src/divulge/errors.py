"""What can go wrong in a user's hands; light, so that the command line starts without NumPy."""

from __future__ import annotations

import contextlib
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


class InputError(ValueError):
    """Something the user handed in cannot be used; the message says what, why and what would do."""


class UserCodeError(InputError):
    """The user's own code raised an error; that error is its cause, and its traceback says where."""

    def traceback(self) -> str:
        """Where in the user's code, without the calls that led there from ours."""
        trace = traceback.TracebackException.from_exception(self.__cause__ or self)
        ours = str(Path(__file__).parent)
        within = [at for at in trace.stack if not at.filename.startswith((ours, "<frozen importlib"))]
        trace.stack = traceback.StackSummary.from_list(within)
        return "".join(trace.format())


class MissingExtraError(ImportError):
    """A part of Divulge was used whose optional dependency is not installed."""


def missing_extra(package: str, name: str) -> MissingExtraError:
    """The error for a missing optional dependency.

    Examples:
        >>> print(missing_extra("torch", "torch"))
        torch is not installed; it comes with: pip install 'divulge[torch]'
    """
    return MissingExtraError(f"{package} is not installed; it comes with: pip install 'divulge[{name}]'")


@contextlib.contextmanager
def user_code_errors(name: str, *passed: type[Exception], hint: str = "") -> Generator[None]:
    """What the user's code raises inside the block is raised on under one line of ours that says whose it is.

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
        said = (str(error).strip() or "no message").splitlines()[0]
        raise UserCodeError(
            f"{name}: your code raised {type(error).__name__}: {said}{hint and f' ({hint})'}"
        ) from error


# Optional packages and the extras they come with.
_EXTRAS = {
    "PIL": "images",
    "httpx": "http",
    "huggingface_hub": "text",
    "onnxruntime": "onnx",
    "opacus": "dp",
    "peft": "text",
    "ray": "ray",
    "starlette": "view",
    "uvicorn": "view",
    "tokenizers": "text",
    "torch": "torch",
    "transformers": "text",
}


def as_missing_extra(error: BaseException) -> MissingExtraError | None:
    """The error in words, where it is that an optional dependency could not be imported; None where it is another.

    Examples:
        >>> print(as_missing_extra(ModuleNotFoundError("No module named 'torch'", name="torch.nn")))
        torch is not installed; it comes with: pip install 'divulge[torch]'
    """
    package = (getattr(error, "name", None) or "").partition(".")[0]
    return missing_extra(package, _EXTRAS[package]) if isinstance(error, ImportError) and package in _EXTRAS else None
