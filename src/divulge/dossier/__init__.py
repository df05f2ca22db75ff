"""Run directories: what a command produced, published as a whole, checked when it is read."""

from divulge.dossier.directory import Dossier, ReplacedError
from divulge.dossier.draft import Draft
from divulge.dossier.mark import FORMAT

__all__ = ["FORMAT", "Dossier", "Draft", "ReplacedError"]
