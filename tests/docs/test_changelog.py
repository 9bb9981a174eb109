"""The changelog has the form that it names, and says something of the version that is built."""

import pytest

from docs.changelog import ROOT, UNRELEASED, entries, notes, problems, versions

TEXT = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
GOOD = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2027-01-02\n\n### Added\n\n- a\n\n## [0.1.0] - 2026-11-30\n\nb\n"


def test_it_has_the_form_that_it_names() -> None:
    assert list(problems(TEXT)) == []
    assert entries(TEXT)[0].name == UNRELEASED


def test_all_parts_have_one_version_and_the_changelog_tells_of_it() -> None:
    (version,) = {*versions().values()}
    assert "### Added" in notes(TEXT, version)


def test_a_release_of_another_version_has_no_notes() -> None:
    with pytest.raises(ValueError, match=r"pyproject\.toml says .*, not 99"):
        notes(TEXT, "99.0.0")


def test_a_version_that_nothing_is_said_of_has_no_notes() -> None:
    (version,) = {*versions().values()}
    with pytest.raises(ValueError, match="has no"):
        notes("## [Unreleased]\n", version)


def test_the_entry_of_a_version_ends_at_the_next() -> None:
    assert [(entry.name, entry.text) for entry in entries(GOOD)] == [
        ("Unreleased", ""),
        ("0.2.0", "### Added\n\n- a"),
        ("0.1.0", "b"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[0.2.0] - 2027-01-02", "[0.2.0]", "has a date"),
        ("0.2.0", "0.0.9", "0.0.9 stands above 0.1.0"),
        ("### Added", "### News", "News is none of"),
        ("\n\nb\n", "\n", "0.1.0 says nothing"),
        ("2027-01-02", "20270102", "is no date"),
        ("2027-01-02", "2027-02-30", "is no date"),
    ],
)
def test_what_is_wrong_with_its_form_is_told(old: str, new: str, said: str) -> None:
    assert list(problems(GOOD)) == []
    assert said in "\n".join(problems(GOOD.replace(old, new)))
