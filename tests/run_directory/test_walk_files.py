"""The order in which the files of runs are walked: sorted, and the manifest of each run after its files."""

from divulge.run_directory import MANIFEST_NAME, walk_files


def test_plain_files_are_walked_in_order_with_manifests_last(tmp_path):
    for name in ("z.txt", MANIFEST_NAME, "a.txt", "team/y.txt", f"team/{MANIFEST_NAME}", ".hidden", ".git/config"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link.txt").symlink_to(tmp_path / "a.txt")
    (tmp_path / "linked").symlink_to(tmp_path / "team")
    assert list(walk_files(tmp_path)) == [
        "a.txt", "team/y.txt", f"team/{MANIFEST_NAME}", "z.txt", MANIFEST_NAME,
    ]  # fmt: skip
