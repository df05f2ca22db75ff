"""Documents and tables of other programs are refused with what makes something of them that is read."""

import re

import pytest

import divulge as dv
from divulge import datafiles, tables

LAYOUTS = [datafiles.FileLayout(), datafiles.FileLayout(text="text")]


def refuse(path, layout):
    with pytest.raises(dv.InputError) as caught:
        datafiles.read_records(path, layout)
    return str(caught.value)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("letter.docx", "pandoc -t plain -o letter.txt letter.docx"),
        ("my letter.odt", "pandoc -t plain -o 'my letter'.txt 'my letter.odt'"),
        ("letter.PDF", "pdftotext letter.PDF letter.txt"),
        ("letter.doc", "soffice --headless --convert-to txt:Text letter.doc"),
        ("people.xlsx", "pandas.read_excel('people.xlsx').to_parquet('people.parquet')"),
        ("people.sav", "pandas.read_spss('people.sav').to_parquet('people.parquet')"),
        ("people.sas7bdat", "pandas.read_sas('people.sas7bdat', encoding='utf-8').to_parquet('people.parquet')"),
        ("people.rds", "write.csv(data, 'people.csv', row.names = FALSE)"),
    ],
)
def test_the_message_names_the_program(tmp_path, name, way, layout):
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / name, tmp_path / "folder" / name):
        path.write_bytes(b"PK\x03\x04")
    assert way in refuse(tmp_path / name, layout)
    assert way in refuse(tmp_path / "folder", layout), "a folder of such files"
    with pytest.raises(dv.InputError, match=re.escape(way)):
        tables.read_table(tmp_path / name)


def test_a_table_of_stata_is_read_after_what_the_message_says(tmp_path, monkeypatch):
    pd = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    people = pd.DataFrame({"age": [30, 41, 52], "sex": pd.Categorical(["f", "m", "f"]), "label": [0, 1, 1]})
    people.to_stata("people.dta", write_index=False)
    told = re.search(r"; (pandas.+) makes a table", refuse(tmp_path / "people.dta", LAYOUTS[0])).group(1)
    eval(told, {"pandas": pd})
    records = datafiles.read_records(tmp_path / "people.parquet", datafiles.FileLayout()).records
    assert records.table["sex"].to_list() == ["f", "m", "f"]
    assert records.y.tolist() == [0, 1, 1]
