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

_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")  # modes with at most 8 bits per channel
_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm")


def read_image_folder(path: Path, classes: Sequence[str] | None) -> tuple[Records, tuple[str, ...]]:
    """Read images ``[n, channels, height, width]`` in [0, 1], as torchvision's ``ToTensor``, and class names.

    Hidden files and folders without an image are ignored.

    Args:
        path: a folder with one folder of images for each class.
        classes: the names of all classes, in the order of the model's outputs; None takes the names of the folders in
            alphabetical order.

    Raises:
        divulge.InputError: no such folders, images of different sizes, files that are no images, too little memory.
        divulge.MissingExtraError: Pillow is not installed.
    """
    folders = sorted(folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith("."))
    class_files = {folder.name: files for folder in folders if (files := _image_files(folder))}
    if not class_files:
        raise InputError(
            f"{path} is no folder of images (one folder for each class, of {' '.join(_ENDINGS)}), nor of tables, nor a "
            "data set that was saved by `datasets`"
        )
    positions = {name: i for i, name in enumerate(class_files if classes is None else classes)}
    for name in class_files:
        check_choice(name, "data.classes: a folder's name", positions)
    labels = np.repeat([positions[name] for name in class_files], [len(files) for files in class_files.values()])
    all_files = [file for files in class_files.values() for file in files]
    ids = [file.relative_to(path).as_posix() for file in all_files]
    return Records(_read_images(all_files), labels, ids), tuple(positions)


def _image_files(folder: Path) -> list[Path]:
    return sorted(
        file for file in folder.rglob("*") if file.suffix.lower() in _ENDINGS and not file.name.startswith(".")
    )


def _read_images(files: Sequence[Path]) -> np.ndarray:
    height, width = _read_pixels(files[0], None).shape[-2:]
    check_memory(4.0 * len(files) * 3 * width * height, str(files[0].parent.parent), "use fewer images")
    is_grey = all(_image_mode(file) in ("L", "1") for file in files)
    images = np.empty((len(files), 1 if is_grey else 3, height, width), dtype=np.float32)
    for row, file in enumerate(files):
        pixels = _read_pixels(file, "L" if is_grey else "RGB")
        if pixels.shape[-2:] != (height, width):
            raise InputError(
                f"{file}: {pixels.shape[-2]} x {pixels.shape[-1]} pixels where {files[0].name} has {height} x {width}; "
                "bring all images to the size that the model takes"
            )
        images[row] = pixels
    images /= np.float32(255)
    return images


def _image_mode(file: Path) -> str:
    with _open_image(file) as image:
        if image.mode not in _MODES:
            raise InputError(
                f"{file}: pixels of 8 bits are needed, and its mode is {image.mode!r}; save it with 8 bits, or bring "
                "the arrays as an .npz"
            )
        return image.mode


def _read_pixels(file: Path, mode: str | None) -> np.ndarray:
    """Return the pixels of an image, channels first, from 0 to 255."""
    with _open_image(file) as image:
        try:
            pixels = np.asarray(image if mode is None else image.convert(mode))
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise InputError(f"{file}: damaged or half-written ({format_exception(error)})") from None
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


@contextlib.contextmanager
def _open_image(file: Path) -> Generator[Image.Image]:
    with contextlib.ExitStack() as stack:
        try:
            image = Image.open(stack.enter_context(open_untrusted(file)))
        except ImportError:
            raise missing_extra("Pillow", "images") from None
        except InputError:
            raise
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise InputError(f"{file}: no image ({format_exception(error)})") from None
        yield image
