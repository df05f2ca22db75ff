"""For a PyTorch without CUDA, beside which the torchvision of the package index wants two operators that it lacks.

Whatever imports this can import torchvision; nothing here runs an operator of it.
"""

from __future__ import annotations

import torch

_KEPT = torch.library.Library("torchvision", "DEF")
if torch.version.cuda is None:
    for name in ("nms", "qnms"):
        _KEPT.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
