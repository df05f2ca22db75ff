"""Networks that are not what they seem."""

from torch import nn


class Scaled(nn.Module):
    """Its outputs are three times those of its last linear layer."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return 3 * self.inner(x)
