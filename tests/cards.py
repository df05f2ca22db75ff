"""Two graphics cards that are not there: tensors that name a device of their own, compute, and meet no other's."""

import functools

import torch
from accelerate import hooks
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

_TYPE = "meta"  # the one type with an index that needs no driver; the values stand beside it


class CardTensor(torch.Tensor):
    """Values on this machine that say they are on a card."""

    @staticmethod
    def __new__(cls, values, device):
        tensor = torch.Tensor._make_wrapper_subclass(
            cls, values.size(), strides=values.stride(), dtype=values.dtype, device=device
        )
        tensor.values = values
        return tensor

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return _compute(function, args, kwargs or {})

    def tolist(self):
        return self.cpu().tolist()

    def __repr__(self):
        return f"CardTensor({self.device})"


class Cards(TorchDispatchMode):
    """Inside, tensors can be put on cards ``ipu:0`` and ``ipu:1``; an operation on tensors of two is an error."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return _compute(function, args, kwargs or {})


def _compute(function, args, kwargs):
    with Cards():
        parts = function.decompose(*args, **kwargs)  # in inference mode some operations come whole
    if parts is not NotImplemented:
        return parts
    tensors = [value for value in pytree.tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
    device, kwargs = _place(function, args, kwargs, tensors)
    wrappers = {id(tensor.values): tensor for tensor in tensors if isinstance(tensor, CardTensor)}
    result = function(*pytree.tree_map(_unwrap, args), **pytree.tree_map(_unwrap, kwargs))

    def wrap(value):
        if not isinstance(value, torch.Tensor) or isinstance(value, CardTensor):
            return value
        if id(value) in wrappers:
            return wrappers[id(value)]
        return CardTensor(value, device) if device.type == _TYPE else value

    return pytree.tree_map(wrap, result)


def _place(function, args, kwargs, tensors):
    """Return where the result is, and the arguments with which it is computed here."""
    devices = {tensor.device for tensor in tensors if tensor.dim() or isinstance(tensor, CardTensor)}
    if len(devices) > 1:
        devices.discard(torch.device(_TYPE))  # torch.tensor(…, device=…) forgets the index
    if function is torch.ops.aten.copy_.default:
        return args[0].device, kwargs
    if len(devices) > 1:
        raise RuntimeError(f"{function}: tensors on several devices: {sorted(map(str, devices))}")
    if kwargs.get("device") is None:
        return next(iter(devices), torch.device("cpu")), kwargs
    device = torch.device(kwargs["device"])
    if device.type != _TYPE:
        return device, kwargs
    if device.index is None:  # `new_zeros` and its like
        device = next(iter(devices), torch.device(_TYPE, 0))
    return device, kwargs | {"device": torch.device("cpu")}


def _unwrap(value):
    if isinstance(value, CardTensor):
        return value.values
    is_empty = isinstance(value, torch.Tensor) and value.is_meta and not value.numel()  # of a new cache
    return torch.empty(value.shape, dtype=value.dtype) if is_empty else value


def spread(model):
    """Put embeddings and first layer on one card and the rest on another, hooked as accelerate's dispatch does it."""
    first, second = torch.device(_TYPE, 0), torch.device(_TYPE, 1)
    whole = (model, model.base_model)
    for name, module in model.named_modules():
        parts = name.split(".")
        device = first if "0" in parts or parts[-1] in ("embed_tokens", "wte", "wpe", "embed_in") else second
        for tensors in (module._parameters, module._buffers):
            for key, value in tensors.items():
                if value is not None and not isinstance(value.data, CardTensor):
                    moved = CardTensor(value.detach(), device)
                    tensors[key] = (
                        torch.nn.Parameter(moved, requires_grad=False) if tensors is module._parameters else moved
                    )
        if module not in whole and not isinstance(module, torch.nn.ModuleList):
            _hook(module, hooks.AlignDevicesHook(execution_device=device))
    _hook(model, hooks.AlignDevicesHook(execution_device=first, io_same_device=True))
    return model


def _hook(module, hook):
    """Wrap a module's forward by a hook, whose `init_hook` alone would look for the real card."""
    forward, module._hf_hook = module.forward, hook

    @functools.wraps(forward)
    def run(*args, **kwargs):
        args, kwargs = hook.pre_forward(module, *args, **kwargs)
        return hook.post_forward(module, forward(*args, **kwargs))

    module.forward = run
