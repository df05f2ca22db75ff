"""Documents that persons of several sets share: they were trained on and were not, so no record may hold them."""

import numpy as np
import pytest

import divulge as dv
from divulge.auditing.inputs import separate_sets
from divulge.people import split_record


def persons(**documents):
    """Records of persons from name → documents."""
    pairs = [(name, text) for name, texts in documents.items() for text in texts]
    return dv.by_person([text for _, text in pairs], [name for name, _ in pairs])


def sets(member=("a", "shared"), nonmember=("b", "shared"), population=("c", "d")):
    return {
        "members": persons(ann=list(member), amy=["a1", "greeting"], al=["a2", "greeting"]),
        "nonmembers": persons(bob=list(nonmember), bea=["b1", "b2"]),
        "population": persons(cid=list(population), cora=["c1"], carl=["c2", "c3"]),
    }


def test_a_document_of_two_sets_is_refused_and_named():
    with pytest.raises(dv.InputError, match=r"1 document in records of several sets \(1 members, 1 non-members, 0 of"):
        separate_sets(sets(), "error")
    with pytest.raises(dv.InputError, match="0 members, 1 non-members, 1 of the population"):
        separate_sets(sets(member=["a"], population=["shared", "x"]), "error")


def test_it_is_taken_out_of_everybody_and_nothing_else_is():
    separated = separate_sets(sets(), "drop")
    assert [split_record(text) for text in separated.members.x] == [["a"], ["a1", "greeting"], ["a2", "greeting"]]
    assert [split_record(text) for text in separated.nonmembers.x] == [["b"], ["b1", "b2"]]
    assert separated.kept_mask.all()
    assert separated.duplicates == 2
    assert "these documents were taken out of every record" in separated.notes[-1]


def test_whoever_has_no_other_document_is_left_out():
    separated = separate_sets(sets(member=["shared"], nonmember=["shared", "b"]), "drop")
    assert separated.members.ids.tolist() == ["amy", "al"]
    assert separated.kept_mask.tolist() == [False, True, True, True, True]
    assert "leaves nothing of 1 record" in separated.notes[-1]
    with pytest.raises(dv.InputError, match="nothing is left"):
        separate_sets(
            {
                "members": persons(ann=["a", "b"]),
                "nonmembers": persons(bob=["a"], bea=["b"]),
                "population": persons(c=["c"]),
            },
            "drop",
        )


def test_it_may_be_kept_with_a_warning():
    separated = separate_sets(sets(), "keep")
    assert split_record(separated.members.x[0]) == ["a", "shared"]
    assert "biases every number towards no leak" in separated.notes[-1]


@pytest.mark.parametrize("policy", ["error", "drop", "keep"])
def test_within_a_set_it_may_be_shared(policy):
    separated = separate_sets(sets(nonmember=["b"]), policy)
    assert not separated.notes
    assert split_record(separated.members.x[1]) == ["a1", "greeting"]
    assert separated.groups is None


@pytest.mark.parametrize("policy", ["drop", "keep"])
def test_labels_and_features_stay_with_their_persons(policy):
    parts = sets(member=["shared"])
    values = {name: np.arange(len(records)) + 10.0 for name, records in parts.items()}
    parts = {name: records.with_features(values[name]) for name, records in parts.items()}
    separated = separate_sets(parts, policy)
    for name in parts:
        records = getattr(separated, name)
        value_of = dict(zip(parts[name].ids.tolist(), values[name], strict=True))
        assert records.features[:, 0].tolist() == [value_of[person] for person in records.ids.tolist()]


def test_whole_equal_persons_are_duplicates_as_before():
    same = {"member": ["x", "y"], "nonmember": ["x", "y"]}
    with pytest.raises(dv.InputError, match="1 non-members are exact duplicates of members"):
        separate_sets(sets(**same), "error")
    assert separate_sets(sets(**same), "drop").members.ids.tolist() == ["amy", "al"]
