"""The page of code that builds an empty network, as far as the weights in a file and the records show it."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import safetensors

Shapes: TypeAlias = Mapping[str, tuple[int, ...]]
"""Name of a weight → its shape."""

_POSITION = re.compile(r"((?P<name>[A-Za-z_]\w*)\.)?(?P<position>\d+)\.(?P<kind>weight|bias)")
_ATTRIBUTE = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]*")
_MAX_POSITION = 200  # of a layer in nn.Sequential: a name with a larger number is none
_MAX_LISTED = 60  # weights that are listed in a page of code
_PAGE = '''"""The network {subject}.

{advice}
"""

{imports}


def make_model():
    """The untrained network; {outputs}."""
{code}
'''


def read_weight_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the name and the shape of each weight in a ``.safetensors`` file; none where it cannot be read."""
    try:
        with safetensors.safe_open(path, framework="np") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (OSError, ValueError, safetensors.SafetensorError):
        return {}


def write_network_stub(
    shapes: Shapes, record_shape: Sequence[int] = (), n_outputs: int | None = None, *, is_regression: bool = False
) -> tuple[str, str]:
    """Return the code of ``make_model``, and what to fill in there.

    Linear layers are written as they are where their names are positions in an ``nn.Sequential``, or attributes of a
    module of which each takes what another gives; what stands between them has no weights, and is taken to be a ReLU.
    Of other networks only the numbers of inputs and outputs are written.

    Args:
        shapes: of the weights; empty where there is no file.
        record_shape: of one record; empty where it is not known.
        n_outputs: of the network; None where it is not known.
        is_regression: whether its output is a value.

    Examples:
        >>> code, _ = write_network_stub({"0.weight": (8, 36), "0.bias": (8,), "2.weight": (6, 8), "2.bias": (6,)})
        >>> print(code.splitlines()[-1].strip())
        return nn.Sequential(nn.Linear(36, 8), nn.ReLU(), nn.Linear(8, 6))
    """
    outputs = "one output, the value" if is_regression else "one output for each class"
    if layers := _find_layers(shapes):
        name, modules, n_inputs, shows_all = layers
        code = f"    return nn.Sequential({', '.join(modules)})"
        imports = "from torch import nn"
        if name:
            code = f"    return nn.Sequential(OrderedDict({name}=nn.Sequential({', '.join(modules)})))"
            imports = f"from collections import OrderedDict\n\n{imports}"
        task = "its activations, if they are not ReLU"
        if not shows_all:
            task += ", and what nn.Identity() stands for"
        return _write_known_network(imports, code, outputs, task + _describe_misfit(n_inputs, record_shape))
    if chain := _order_named_layers(shapes, math.prod(record_shape)):
        n_inputs = shapes[f"{chain[0]}.weight"][1]
        is_flattened = len(record_shape) > 1 and n_inputs == math.prod(record_shape)
        imports = f"import torch\nfrom torch import nn\n\n\n{_write_class(shapes, chain, is_flattened=is_flattened)}"
        task = "its activations, if they are not ReLU, and what else forward() does"
        if len({shapes[f"{name}.weight"][1] for name in chain}) < len(chain):
            task += ", with the order of the layers if their names do not tell it"
        return _write_known_network(
            imports, "    return Net()", outputs, task + _describe_misfit(n_inputs, record_shape)
        )
    known = " and ".join(["inputs"] * bool(record_shape) + ["outputs"] * (is_regression or n_outputs is not None))
    n_inputs, n_outputs = math.prod(record_shape) or 784, 1 if is_regression else n_outputs or 10
    code = f"    return nn.Sequential(nn.Flatten(), nn.Linear({n_inputs}, 256), nn.ReLU(), nn.Linear(256, {n_outputs}))"
    if shapes:
        listed = [f"    #   {name} {list(shape)}" for name, shape in list(shapes.items())[:_MAX_LISTED]]
        listed += [f"    #   and {len(shapes) - _MAX_LISTED:,} more"] * (len(shapes) > _MAX_LISTED)
        code = "\n".join(["    # The file's weights, which state_dict() of the network must have too:", *listed, code])
    page = _PAGE.format(
        subject="whose weights the plan names" if shapes else "of the plan",
        advice=f"Fill in the one that was trained{f'; the numbers of {known} are those of the records' * bool(known)}.",
        imports="from torch import nn",
        outputs=outputs,
        code=code,
    )
    return page, "the layers of the network that was trained"


def _write_known_network(imports: str, code: str, outputs: str, task: str) -> tuple[str, str]:
    """Return the page of a network whose layers the weights show, and what to fill in there."""
    advice = f"Sizes are those of the weights. Fill in {task}."
    subject = "whose weights the plan names"
    return _PAGE.format(subject=subject, advice=advice, imports=imports, outputs=outputs, code=code), task


def _describe_misfit(n_inputs: int, record_shape: Sequence[int]) -> str:
    """Say that the first layer takes another number of values than a record has; empty where it fits."""
    if not record_shape or n_inputs in (record_shape[-1], math.prod(record_shape)):
        return ""
    return f"; its weights take {n_inputs:,} values, and a record has {math.prod(record_shape):,}"


def _order_named_layers(shapes: Shapes, n_values: int) -> list[str]:
    """Return the attributes that hold linear layers with biases, each taking what the one before gives; else none.

    They come in the only order in which their sizes fit, of which the first takes ``n_values`` where they fit in a
    circle; where several take equally many values, in the order of their names, numbers counted, if that fits.
    """
    names = sorted(
        {name.rpartition(".")[0] for name in shapes},
        key=lambda name: [(part.isdigit(), int(part) if part.isdigit() else part) for part in re.split(r"(\d+)", name)],
    )
    weights = {name: shapes.get(f"{name}.weight", ()) for name in names}
    if not (
        0 < len(names) <= _MAX_LISTED
        and set(shapes) == {f"{name}.{kind}" for name in names for kind in ("weight", "bias")}
        and all(_ATTRIBUTE.fullmatch(name) and not keyword.iskeyword(name) for name in names)
        and all(len(weights[name]) == 2 and shapes[f"{name}.bias"] == weights[name][:1] for name in names)
    ):
        return []
    takers = {weights[name][1]: name for name in names}
    if len(takers) < len(names):
        return names if _is_chain(weights, names) else []
    given = {weights[name][0] for name in names}
    starts = [name for n_inputs, name in takers.items() if n_inputs not in given] or [takers.get(n_values)]
    place, order = starts[0], list[str]()
    while place is not None and place not in order:
        order.append(place)
        place = takers.get(weights[place][0])
    return order if len(order) == len(names) else []


def _is_chain(weights: Shapes, names: Sequence[str]) -> bool:
    return all(weights[giver][0] == weights[taker][1] for giver, taker in pairwise(names))


def _write_class(shapes: Shapes, names: Sequence[str], *, is_flattened: bool) -> str:
    """Return the code of a module with these linear layers."""
    sizes = {name: shapes[f"{name}.weight"] for name in names}
    layers = [f"        self.{name} = nn.Linear({n_in}, {n_out})" for name, (n_out, n_in) in sizes.items()]
    flat = ["        x = x.flatten(1)"] * is_flattened
    steps = [f"        x = torch.relu(self.{name}(x))" for name in names[:-1]]
    head = [
        "class Net(nn.Module):",
        '    """Linear layers, with the names that they have in the file."""',
        "",
        "    def __init__(self):",
        "        super().__init__()",
    ]
    forward = ["", "    def forward(self, x):", *flat, *steps, f"        return self.{names[-1]}(x)"]
    return "\n".join([*head, *layers, *forward])


def _find_layers(shapes: Shapes) -> tuple[str, list[str], int, bool] | None:
    """Return the ``nn.Sequential`` of linear layers that these weights are of; None for another network.

    Returns:
        The attribute that holds it (empty where it is the network itself), its modules, the number of its inputs, and
        whether the weights show each place where a module without weights must stand.
    """
    matches = [_POSITION.fullmatch(name) for name in shapes]
    placed = [match for match in matches if match is not None]
    if not placed or len(placed) != len(matches) or len({match["name"] for match in placed}) != 1:
        return None
    weights = {int(m["position"]): shapes[m.string] for m in placed if m["kind"] == "weight"}
    biases = {int(m["position"]): shapes[m.string] for m in placed if m["kind"] == "bias"}
    positions = sorted(weights)
    chained = all(weights[giver][0] == weights[taker][-1] for giver, taker in pairwise(positions) if weights[giver])
    if not (
        positions
        and all(len(shape) == 2 for shape in weights.values())
        and all(at in weights and shape == weights[at][:1] for at, shape in biases.items())
        and chained
        and positions[-1] <= _MAX_POSITION
    ):
        return None
    shows_all = positions[0] <= 1 and all(taker - giver <= 2 for giver, taker in pairwise(positions))
    modules = ["nn.Flatten()"] * bool(positions[0]) + ["nn.Identity()"] * (positions[0] - 1)
    before = positions[0] - 1
    for position in positions:
        between = position - before - 1
        modules += (["nn.ReLU()"] + ["nn.Identity()"] * (between - 1)) * bool(between)
        n_outputs, n_inputs = weights[position]
        modules.append(f"nn.Linear({n_inputs}, {n_outputs}{'' if position in biases else ', bias=False'})")
        before = position
    return placed[0]["name"] or "", modules, weights[positions[0]][1], shows_all
