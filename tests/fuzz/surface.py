"""What is public: every name that `divulge.__all__` leads to."""

import inspect
import types

import divulge


def public():
    """Functions and classes by name: "evaluation.auc", "decisions.fdr.select"; Protocols and errors are none."""
    functions, visited = {}, set()

    def walk(module, path):
        listed = getattr(module, "__all__", None)
        for name in listed or vars(module):
            value = getattr(module, name)
            qualified = f"{path}.{name}".lstrip(".")
            if isinstance(value, types.ModuleType):
                if listed and value.__name__.startswith("divulge.") and value not in visited:
                    visited.add(value)
                    walk(value, qualified)
            elif (
                _ours(value, name)
                and (listed or value.__module__ == module.__name__)
                and value not in functions.values()
            ):
                functions[qualified] = value

    walk(divulge, "")
    return functions


def _ours(value, name):
    if name.startswith("_") or not callable(value) or not getattr(value, "__module__", "").startswith("divulge"):
        return False
    protocol = getattr(value, "_is_protocol", False)
    return not (inspect.isclass(value) and (protocol or issubclass(value, BaseException)))


def parameters(function):
    """Names of the parameters of a function or class."""
    return tuple(inspect.signature(function).parameters)
