"""How large an install is: the plain one, package by package, and what each extra adds, in MB on disk.

    python benchmarks/install_size.py

Counted are the files of every package that is needed, as they are installed here, with their byte code.
"""

from __future__ import annotations

import argparse
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def closure(name: str, extras: frozenset[str] = frozenset()) -> set[str]:
    """All packages that a package needs, itself included."""
    queue, visited = [(canonicalize_name(name), extras)], set()
    while queue:
        package, chosen = queue.pop()
        if (package, chosen) in visited:
            continue
        visited.add((package, chosen))
        for line in metadata.distribution(package).requires or ():
            requirement = Requirement(line)
            if requirement.marker is None or any(
                requirement.marker.evaluate({"extra": extra}) for extra in (*chosen, "")
            ):
                queue.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return {package for package, _ in visited}


def size(package: str) -> float:
    """MB of its files and their byte code."""
    files = [Path(str(file.locate())) for file in metadata.distribution(package).files or ()]
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    plain = closure("divulge")
    requirements = [line for line in metadata.requires("divulge") or () if "extra" not in line]
    direct = [canonicalize_name(Requirement(line).name) for line in requirements]
    print(f"plain: {sum(map(size, plain)):.0f} MB\n\n| package | with what it needs alone |\n|---|---:|")
    for name in sorted(direct, key=lambda name: -size(name)):
        shared_packages = set().union(*(closure(other_name) for other_name in direct if other_name != name))
        print(f"| {name} | {sum(map(size, closure(name) - shared_packages)):.0f} |")
    print("\n| extra | adds |\n|---|---:|")
    for extra in metadata.metadata("divulge").get_all("Provides-Extra") or ():
        try:
            added = closure("divulge", frozenset({extra})) - plain
        except metadata.PackageNotFoundError as error:
            print(f"| {extra} | not installed here: {error} |")
            continue
        print(f"| {extra} | {sum(map(size, added)):.0f} |")


if __name__ == "__main__":
    main()
