"""A folder of texts, one file for each document, in the place of a table."""

import pytest

import divulge as dv
from divulge import datafiles, plan, tables


def make_folder(path, **texts):
    path.mkdir()
    for name, text in texts.items():
        (path / f"{name}.txt").write_bytes(text)
    return path


def test_each_file_is_a_document_and_its_name_the_id(tmp_path):
    folder = make_folder(tmp_path / "texts", b=b"Second\r\nline", a="\ufeffgr\u00fc\u00df".encode())
    (folder / ".hidden.txt").write_text("no")
    records = datafiles.read_records(folder, datafiles.FileLayout()).records
    assert records.ids.tolist() == ["a.txt", "b.txt"]
    assert records.x.tolist() == ["gr\u00fc\u00df", "Second\nline"]
    assert tables.read_table(folder)["text"].to_list() == records.x.tolist()


@pytest.mark.parametrize(
    ("names", "named"),
    [
        ({}, "texts"),
        ({"a.txt": b"gr\xfc"}, "UTF-8"),
        ({"a.txt": b" "}, "no text"),
        ({"a.txt": b"x", "b.pdf": b"y"}, "b.pdf"),
        ({"a.txt": b"x", "inner/b.txt": b"y"}, "inner"),
    ],
)
def test_a_folder_that_is_no_folder_of_texts_is_refused(names, named, tmp_path):
    for name, content in names.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(content)
    (tmp_path / "in").mkdir(exist_ok=True)
    with pytest.raises(dv.InputError, match=named):
        datafiles.read_records(tmp_path / "in", datafiles.FileLayout())


def test_texts_of_one_name_in_several_folders_are_told_apart(tmp_path):
    pytest.importorskip("transformers")
    for name in ("members", "nonmembers", "population"):
        make_folder(tmp_path / name, a=name.encode(), b=f"{name} b".encode())
    (tmp_path / "target.py").write_text(
        "from divulge import targets\n\n\nclass Model:\n    def tokens(self, texts, vocabulary=True):\n"
        "        assert not texts\n\n    def key(self):\n        return {}\n\n\nmodel = Model()\n"
    )
    sets = {name: name for name in ("members", "nonmembers", "population")}
    checked = plan.Plan.check(data=sets, target={"model": "target:model"}, recipes=["loss"])
    subject = plan.resolve(checked, tmp_path).subject
    assert subject.members.ids.tolist() == ["members/a.txt", "members/b.txt"]
