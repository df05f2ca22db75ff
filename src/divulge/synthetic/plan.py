"""A plan of an audit of a release: its tables and settings in a TOML file."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from divulge.errors import InputError
from divulge.settings import SyntheticPlan
from divulge.store import read_untrusted
from divulge.validation import check_path

if TYPE_CHECKING:
    from pathlib import Path


def read_plan(path: str | Path) -> dict[str, Any]:
    """Read the table ``[synthetic]`` of a plan and return the keywords of `divulge.synthetic.audit`.

    Paths are relative to the plan.

    Raises:
        divulge.InputError: no such file, not TOML, no such table, keys or values that do not fit.
    """
    file = check_path(path, "plan")
    try:
        content = tomllib.loads(read_untrusted(file).decode())
    except FileNotFoundError:
        raise InputError(f"plan: no such file: {file}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"plan: {file} is not readable TOML ({error})") from None
    if not isinstance(content.get("synthetic"), dict) or len(content) > 1:
        raise InputError(f"plan: {file}: one table [synthetic] is needed, got {', '.join(content) or 'nothing'}")
    try:
        plan = SyntheticPlan.check(**content["synthetic"])
    except InputError as error:
        raise InputError(f"plan: {file}: {error}") from None
    keywords = {name: getattr(plan, name) for name in plan.model_fields_set}
    folder = file.parent
    keywords |= {name: folder / getattr(plan, name) for name in ("members", "nonmembers", "population")}
    return keywords | {"released": [folder / name for name in plan.released]}
