"""A word is only offered where it may have been meant."""

import pytest

from ebbtide.likeness import nearest

COMMANDS = ("reconciler", "webhook", "agent", "status", "explain", "demo", "preflight", "cleanup", "certs", "config")


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("confg", COMMANDS, "config"),
        ("stats", COMMANDS, "status"),
        ("pre", COMMANDS, "preflight"),
        ("recon", COMMANDS, "reconciler"),
        ("cpu", ("request-cpu", "limit-cpu"), "limit-cpu"),
        ("jsn", ("table", "json"), "json"),
        ("ab", ("abx", "aby"), "abx"),
        # Some letters in common are no likeness.
        ("yaml", ("text", "json", "toml"), ""),
        ("quit", COMMANDS, ""),
        ("pr", COMMANDS, ""),
        ("x", COMMANDS, ""),
        ("", COMMANDS, ""),
        ("anything", (), ""),
    ],
)
def test_the_nearest_word_is_one_that_is_near(word: str, known: tuple[str, ...], meant: str) -> None:
    assert nearest(word, known) == meant
