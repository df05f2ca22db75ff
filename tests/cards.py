"""Graphics cards that are not there: tensors that name a device of their own, compute, and meet no other's."""

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
        place = torch.device(_TYPE, device.index or 0)
        tensor = torch.Tensor._make_wrapper_subclass(
            cls, values.size(), strides=values.stride(), dtype=values.dtype, device=place
        )
        tensor.values, tensor.card = values, device
        return tensor

    @property
    def device(self):
        return self.card

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return _compute(function, args, kwargs or {})

    def tolist(self):
        return self.cpu().tolist()

    def __repr__(self):
        return f"CardTensor({self.device})"


class Cards(TorchDispatchMode):
    """Inside, tensors can be put on cards ``meta:0`` and ``meta:1``; an operation on tensors of two is an error."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return _compute(function, args, kwargs or {}, self)


class Gpu(Cards):
    """Inside, tensors can be put on ``cuda:0``; what makes this machine wait for it is counted.

    Attributes:
        waits: operations that wait until the card has done all that it was given.
        uploads: of each tensor that was put on it, its size, whether it was pinned, and whether this machine went on.
    """

    _mode_key = torch._C._TorchDispatchModeKey.FAKE  # torch then looks for no driver

    def __init__(self):
        super().__init__()
        self.waits, self.uploads, self._pinned = [], [], []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, function.overloadpacket.__name__
        if name == "is_pinned":
            return any(args[0] is pinned for pinned in self._pinned)
        if name == "_pin_memory":
            self._pinned.append(args[0].clone())
            return self._pinned[-1]
        if name == "_to_copy" and torch.device(kwargs.get("device") or "cpu").type == "cuda":
            is_pinned = any(args[0] is pinned for pinned in self._pinned)
            self.uploads.append((args[0].numel(), is_pinned, bool(kwargs.get("non_blocking"))))
            kwargs = {key: value for key, value in kwargs.items() if key != "non_blocking"}
        result = _compute(function, args, kwargs, self)
        is_of_card = any(isinstance(value, CardTensor) for value in pytree.tree_leaves((args, kwargs)))
        is_read = isinstance(result, torch.Tensor) and not isinstance(result, CardTensor)
        if is_of_card and (is_read or name in {"_local_scalar_dense", "equal", "nonzero", "masked_select"}):
            self.waits.append(name)
        return result


class Reads(TorchDispatchMode):
    """Counts how often a number of a tensor is read, as ``item``, ``float`` and ``bool`` do."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function is torch.ops.aten._local_scalar_dense.default
        return function(*args, **(kwargs or {}))


class SmallMemory(TorchDispatchMode):
    """Inside, no new tensor has more than so many bytes: the allocator refuses, as CUDA's or with ``error``."""

    def __init__(self, limit, error=None):
        super().__init__()
        self.error = error or torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
        self.limit, self.refused = limit, []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        inputs = [value for value in pytree.tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
        places = {value.untyped_storage().data_ptr() for value in inputs}  # views, and arrays that were there
        for value in pytree.tree_leaves(result):
            if not isinstance(value, torch.Tensor) or value.untyped_storage().data_ptr() in places:
                continue
            if value.nbytes > self.limit:
                self.refused.append(value.nbytes)
                raise type(self.error)(*self.error.args)
        return result


def _compute(function, args, kwargs, mode=None):
    with Cards() if mode is None else mode:
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
        return CardTensor(value, device) if device.type != "cpu" else value

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
    if device.type == "cpu":
        return device, kwargs
    if device.index is None or device.type not in {each.type for each in devices}:  # `new_zeros` and its like
        device = next((each for each in devices if each.type != "cpu"), torch.device(device.type, device.index or 0))
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
