"""Folders of images, one for each class, as records."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np

from divulge import lazy
from divulge.errors import InputError, missing_extra
from divulge.store import open_untrusted
from divulge.types import Records
from divulge.validation import check_choice, check_memory, format_exception

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

    from PIL import Image
else:
    Image = lazy.module("PIL.Image")

_PLAIN = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")  # of 8 bits in each channel
_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm")


def images(path: Path, classes: Sequence[str] | None) -> tuple[Records, tuple[str, ...]]:
    """Images ``[n, channels, height, width]`` from 0 to 1, as torchvision's ``ToTensor`` makes them, and their classes.

    Hidden files, and folders without an image, are passed over.

    Args:
        path: a folder with one folder of images for each class.
        classes: the names of all classes, in the order of the model's outputs; the folders' own, in alphabetical
            order, when None.

    Raises:
        divulge.InputError: no such folders, images of several sizes, files that are no images, more than memory takes.
        divulge.MissingExtraError: Pillow is not installed.
    """
    folders = sorted(each for each in path.iterdir() if each.is_dir() and not each.name.startswith("."))
    by_class = {folder.name: own for folder in folders if (own := _files(folder))}
    if not by_class:
        raise InputError(
            f"{path} is no folder of images (one folder for each class, of {' '.join(_IMAGES)}), nor of tables, nor a "
            "data set that was saved by `datasets`"
        )
    names, files = list(by_class), list(by_class.values())
    place = {name: at for at, name in enumerate(names if classes is None else classes)}
    for name in names:
        check_choice(name, "data.classes: a folder's name", place)
    labels = np.repeat([place[name] for name in names], [len(own) for own in files])
    every = [file for own in files for file in own]
    return Records(_read(every), labels, [file.relative_to(path).as_posix() for file in every]), tuple(place)


def _files(folder: Path) -> list[Path]:
    return sorted(
        each for each in folder.rglob("*") if each.suffix.lower() in _IMAGES and not each.name.startswith(".")
    )


def _read(files: Sequence[Path]) -> np.ndarray:
    first = _image(files[0], None)
    size = 4.0 * len(files) * 3 * first.shape[-1] * first.shape[-2]
    check_memory(size, str(files[0].parent.parent), "use fewer images")
    grey = all(_mode(file) in ("L", "1") for file in files)
    every = np.empty((len(files), 1 if grey else 3, *first.shape[-2:]), dtype=np.float32)
    for row, file in enumerate(files):
        own = _image(file, "L" if grey else "RGB")
        if own.shape[-2:] != first.shape[-2:]:
            height, width = own.shape[-2:]
            raise InputError(
                f"{file}: {height} x {width} pixels where {files[0].name} has {first.shape[-2]} x {first.shape[-1]}; "
                "bring all images to the size that the model takes"
            )
        every[row] = own
    every /= np.float32(255)
    return every


def _mode(file: Path) -> str:
    with _opened(file) as image:
        if image.mode not in _PLAIN:
            raise InputError(
                f"{file}: pixels of 8 bits are needed, and its mode is {image.mode!r}; save it with 8 bits, or bring "
                "the arrays as an .npz"
            )
        return image.mode


def _image(file: Path, mode: str | None) -> np.ndarray:
    """Channels first, 0 to 255."""
    with _opened(file) as image:
        try:
            pixels = np.asarray(image if mode is None else image.convert(mode))
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise InputError(f"{file}: damaged or half-written ({format_exception(error)})") from None
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


@contextlib.contextmanager
def _opened(file: Path) -> Generator[Image.Image]:
    with contextlib.ExitStack() as held:
        try:
            image = Image.open(held.enter_context(open_untrusted(file)))
        except ImportError:
            raise missing_extra("Pillow", "images") from None
        except InputError:
            raise
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise InputError(f"{file}: no image ({format_exception(error)})") from None
        yield image
