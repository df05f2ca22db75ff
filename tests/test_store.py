"""Files: private, whole or not there, read with limits, and named by their content."""

import errno
import json
import math
import os
import stat
import zipfile

import numpy as np
import pytest

from divulge import store
from divulge.errors import InputError


def permissions(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_directories_that_are_made_are_private_and_others_keep_their_permissions(tmp_path):
    tmp_path.chmod(0o755)
    made = store.make_private_directory(tmp_path / "a" / "b")
    assert made == tmp_path / "a" / "b"
    assert [permissions(path) for path in (tmp_path, tmp_path / "a", made)] == [0o755, 0o700, 0o700]
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="file"):
        store.make_private_directory(tmp_path / "file")


def test_an_atomic_write_is_private_whole_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "value.json"
    store.write_json(path, {"a": [1, "é"]})
    assert permissions(path) == 0o600
    assert path.read_bytes() == '{\n  "a": [\n    1,\n    "é"\n  ]\n}\n'.encode()
    with pytest.raises(AttributeError), store.atomic_write(path) as temporary:
        temporary.write_text(None.text)
    assert list(tmp_path.iterdir()) == [path]
    assert store.read_json(path) == {"a": [1, "é"]}
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.write_json(path, math.nan)


@pytest.mark.parametrize("filename", [None, "temporary", "other"])
def test_an_error_of_the_disk_names_the_file_that_was_to_be_written(tmp_path, filename):
    path = tmp_path / "out"
    with pytest.raises(OSError, match="No space left") as caught, store.atomic_write(path) as temporary:
        raise OSError(errno.ENOSPC, "No space left", {"temporary": str(temporary)}.get(filename, filename))
    assert caught.value.filename == ("other" if filename == "other" else str(path))
    assert caught.value.errno == errno.ENOSPC


def test_text_is_read_as_utf8_with_one_kind_of_line_end(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("é\r\nb\rc\n".encode())
    assert store.read_text(path) == "é\nb\nc\n"
    assert store.read_text(path, limit=8) == "é\nb\nc\n"
    with pytest.raises(InputError, match=r"text: \S+ MiB are more than such a file may have \(\S+ MiB\)"):
        store.read_text(path, limit=7)
    path.write_bytes(b"ab\xff")
    with pytest.raises(InputError, match=r"text: damaged, not UTF-8 text \(byte 2\)"):
        store.read_text(path)
    with pytest.raises(InputError, match="absent: no such file"):
        store.read_text(tmp_path / "absent")
    with pytest.raises(InputError, match="a file is needed, got a folder"):
        store.read_text(tmp_path)
    with pytest.raises(InputError, match=r"cannot be read \(Not a directory\)"):
        store.read_text(path / "below")


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '{"a": }', ""])
def test_damaged_json_is_named(tmp_path, text):
    (tmp_path / "j").write_text(text)
    with pytest.raises(InputError, match=r"j: damaged or half-written JSON \([^;]*\)$"):
        store.read_json(tmp_path / "j")


def test_a_link_may_not_leave_the_directory_but_may_move_within_it(tmp_path):
    inside = tmp_path / "run"
    inside.mkdir()
    (tmp_path / "secret").write_text("secret")
    (inside / "plain").write_text("plain")
    (inside / "link").symlink_to(inside / "plain")
    (inside / "leaves").symlink_to(tmp_path / "secret")
    assert store.read_text(inside / "link", inside=inside) == "plain"
    with pytest.raises(InputError, match=r"a link that leaves .*run; only files in this directory are read"):
        store.read_text(inside / "leaves", inside=inside)
    assert store.read_text(inside / "leaves") == "secret"


def test_a_hole_on_the_disk_is_refused_and_says_how_much_is_stored(tmp_path):
    with (tmp_path / "hollow").open("wb") as out:
        out.truncate(1 << 30)
        out.write(b"x" * 4096)
        out.flush()
        os.fsync(out.fileno())
    with pytest.raises(InputError, match=r"hollow: damaged, nothing but a hole \("):
        store.open_untrusted(tmp_path / "hollow")


def test_hashes_tell_content_shape_type_and_boundaries_apart():
    values = [
        (np.arange(4),),
        (np.arange(4).reshape(2, 2),),
        (np.arange(4, dtype=np.int32),),
        (np.array(["a", "b"], dtype=object),),
        (np.array(["a", "c"], dtype=object),),
        (b"ab",),
        (b"a", b"b"),
        ("ab",),
        (1,),
        ("1",),
        (None,),
    ]
    assert len({store.hash_values(*parts) for parts in values}) == len(values)
    assert store.hash_values(np.arange(8)[::2]) == store.hash_values(np.array([0, 2, 4, 6]))
    assert store.hash_values(np.array(["a"], dtype=object)) == store.hash_values(np.array(["a"], dtype=object))


def test_the_hash_of_a_file_is_that_of_its_content(tmp_path):
    (tmp_path / "f").write_bytes(b"abc")
    # FIPS 180-2, appendix B.1
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert store.hash_file(tmp_path / "f", inside=tmp_path) == expected


def test_arrays_are_stored_whole_and_objects_never(tmp_path):
    arrays = {"x": np.arange(6.0).reshape(2, 3), "names": np.array(["a", "é"])}
    store.write_arrays(tmp_path / "a.npz", arrays)
    loaded = store.read_arrays(tmp_path / "a.npz")
    assert loaded.keys() == arrays.keys()
    for name, values in arrays.items():
        np.testing.assert_array_equal(loaded[name], values)
    with pytest.raises(InputError, match="objects: an object array cannot be stored without pickle"):
        store.write_arrays(tmp_path / "b.npz", {"x": arrays["x"], "objects": np.array([{}], dtype=object)})
    assert not (tmp_path / "b.npz").exists()


def test_what_is_no_array_without_pickle_is_refused(tmp_path):
    np.save(tmp_path / "one.npy", np.arange(3))
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "several.npz", a=np.arange(3))
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("readme", "words")
    np.testing.assert_array_equal(store.read_array(tmp_path / "one.npy"), np.arange(3))
    cases = [
        (store.read_arrays, "one.npy", r"not a readable \.npz of plain arrays .*a single array without a name"),
        (store.read_arrays, "text.npz", "readme is no array"),
        (store.read_array, "several.npz", r"not a readable \.npy of one plain array .*several arrays"),
        (store.read_array, "objects.npy", "pickled objects are never opened"),
        (store.read_array, "absent.npy", "absent.npy: no such file"),
        (store.read_array, ".", "a file is needed, got a folder"),
    ]
    for read, name, message in cases:
        with pytest.raises(InputError, match=message) as caught:
            read(tmp_path / name)
        assert "allow_pickle" not in str(caught.value)


def test_an_archive_is_refused_where_twice_its_unpacked_content_exceeds_memory(tmp_path, monkeypatch):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", b"\0" * 1000)
        archive.writestr("b", b"\0" * 500)
    checked = []
    monkeypatch.setattr(store, "check_memory", lambda size, name, reason: checked.append((size, name, reason)))
    store.check_archive_size(path, "model")
    with path.open("rb") as file:
        file.seek(7)
        store.check_archive_size(file, "model")
        assert file.tell() == 0
    assert checked == [(3000, "model", "the archive holds more than this machine can read")] * 2
    (tmp_path / "no.zip").write_bytes(b"no archive")
    store.check_archive_size(tmp_path / "no.zip", "model")
    assert len(checked) == 2


def test_json_files_are_read_within_a_directory(tmp_path):
    store.write_json(tmp_path / "j", [1])
    assert store.read_json(tmp_path / "j", inside=tmp_path) == json.loads("[1]")
