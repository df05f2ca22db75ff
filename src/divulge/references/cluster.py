"""Many machines: one Ray task a unit of work. Ray schedules, moves data and repeats what a dead worker lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge import checks
from divulge.references import engines
from divulge.references.jobs import Done, Inner, Job, Task

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


RETRIES = 10
"""Times Ray repeats a task whose worker or node died."""


def run(task: Task, jobs: Sequence[Job], watch: engines.Watch, *, inner: Inner) -> Iterator[Done]:
    """Train jobs on the Ray cluster this program is connected to (``RAY_ADDRESS``, or a local one).

    A cluster that was not running is stopped again at the end; one that was stays as it is.

    Raises:
        divulge.MissingExtraError: Ray is not installed.
        divulge.InputError: a task was lost more often than `RETRIES`.
    """
    try:
        import ray
    except ImportError:
        raise checks.extra("ray", "ray") from None

    ours = not ray.is_initialized()
    if ours:
        ray.init(include_dashboard=False, log_to_driver=False)
    try:
        yield from _gather(ray, task, jobs, inner)
    finally:
        if ours:
            ray.shutdown()


def _gather(ray, task: Task, jobs: Sequence[Job], inner: Inner) -> Iterator[Done]:  # noqa: ANN001
    return
