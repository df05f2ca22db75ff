"""What a proof about a plan says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Certificate:
    """What is proven about a plan or about predictions.

    Args:
        certified: any two labellings give answers further apart than the noise can bridge.
        separation: rigorous lower bound on the distance between the answers to any two different labellings,
            in the oracle's unit, the float error of both answers taken off; 0 when none is proven.
        needed: twice the largest noise and rounding an answer may have; certified means separation > needed.
        method: how it was proven.
        why: why not, when it is not certified.
    """

    certified: bool
    separation: float
    needed: float
    method: str
    why: str = ""

    def __str__(self) -> str:
        if self.certified:
            return f"certified: separation {self.separation:.4g} > {self.needed:.4g} ({self.method})"
        return f"not certified: {self.why}"
