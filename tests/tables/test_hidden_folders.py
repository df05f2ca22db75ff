"""Images in folders: hidden folders, files beside the folders and folders without an image are ignored."""

import numpy as np
import pytest

from divulge import datafiles

image_files = pytest.importorskip("PIL.Image")


def save(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    image_files.fromarray(np.full((2, 3, 3), value, dtype=np.uint8)).save(path)


def test_only_plain_folders_with_images_are_classes(tmp_path):
    save(tmp_path / "cat" / "1.png", 255)
    save(tmp_path / "dog" / "deep" / "2.png", 0)
    save(tmp_path / "dog" / ".hidden.png", 7)
    save(tmp_path / ".thumbs" / "3.png", 9)
    save(tmp_path / "cat" / ".ipynb_checkpoints" / "1-checkpoint.png", 255)
    save(tmp_path / "dog" / "deep" / "@eaDir" / "2.png", 9)
    save(tmp_path / "__MACOSX" / "cat" / "1.png", 9)
    save(tmp_path / "beside.png", 9)
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").touch()
    records, names = datafiles.read_image_folder(tmp_path, None)
    assert names == ("cat", "dog")
    assert records.y.tolist() == [0, 1]
    assert records.ids.tolist() == ["cat/1.png", "dog/deep/2.png"]
    assert records.x.shape == (2, 3, 2, 3)
    assert records.x[:, 0, 0, 0].tolist() == [1.0, 0.0]
