"""Who may control: what cannot be read opens nothing, and guessing is slow for whoever guesses."""

import pytest

from dashboard.shell.policy import CurrentPolicy, Tries, read_policy


@pytest.fixture
def secrets(tmp_path, monkeypatch):
    monkeypatch.delenv("DIGIT_LAB_PASSWORD", raising=False)
    return tmp_path / "secrets.toml"


CLOSED = {
    "a quote is missing": 'controls_password = "abc',
    "a number in brackets": "controls_password = [1]",
    "empty": 'controls_password = ""',
    "blanks": 'controls_password = "  "',
    "yes or no": "controls_password = true",
    "in a section": '[lab]\ncontrols_password = "abc"',
    "another name": 'control_password = "abc"',
    "capitals": 'Controls_Password = "abc"',
    "with a dash": 'controls-password = "abc"',
    "no text at all": b"\xff\xfe\x00",
}


@pytest.mark.parametrize("name", CLOSED)
def test_what_cannot_be_read_locks_for_everybody(secrets, name):
    content = CLOSED[name]
    secrets.write_bytes(content if isinstance(content, bytes) else content.encode())
    policy = read_policy((secrets,))
    assert not policy.is_open
    assert policy.password is None
    assert "LOCKED FOR EVERYBODY" in policy.words


@pytest.mark.parametrize(("content", "password"), [('controls_password = "abc"', "abc"), ("controls_password = 1234", "1234")])
def test_a_password_from_a_file(secrets, content, password):
    secrets.write_text(content)
    assert read_policy((secrets,)).password == password
    assert read_policy((secrets,)).words == "Controls: locked by a password."


def test_without_any_everybody_controls_and_it_is_said(secrets):
    assert read_policy((secrets,)).is_open
    assert "open to everybody" in read_policy((secrets,)).words
    secrets.write_text("other = 1")
    assert read_policy((secrets,)).is_open


VARIABLES = [
    ("DIGIT_LAB_PASSWORD", ""),
    ("DIGIT_LAB_PASSWORD", " "),
    ("DIGIT_LAB_PASWORD", "a"),
    ("DIGITLAB_PASSWORD", "a"),
]


@pytest.mark.parametrize(("name", "value"), VARIABLES)
def test_a_variable_that_is_empty_or_misspelt_locks(secrets, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert not read_policy((secrets,)).is_open
    assert read_policy((secrets,)).password is None


def test_a_password_once_known_is_never_lost(secrets):
    current = CurrentPolicy((secrets,))
    assert current.now().is_open
    secrets.write_text('controls_password = "abc"')
    assert current.now().password == "abc"
    for content in ('controls_password = "ab', "", "other = 1"):
        secrets.write_text(content)
        assert current.now().password == "abc"
    secrets.unlink()
    assert current.now().password == "abc"
    secrets.write_text('controls_password = "new one"')
    assert current.now().password == "new one"


def test_tries_are_counted_by_tab_address_and_server():
    tries = Tries()
    assert tries.allow("tab 1", "a", 0.0)
    assert not tries.allow("tab 1", "a", 0.5)  # and this one does not count for its address
    assert all(tries.allow(f"tab {number}", "a", 0.5) for number in range(2, 6))
    assert not tries.allow("tab 9", "a", 0.6)
    assert tries.allow("tab 9", "b", 0.6)
    assert sum(tries.allow(f"other {number}", f"address {number}", 0.7) for number in range(50)) == 20 - 6
    assert tries.allow("tab 1", "a", 2.0)
    for number in range(10_000):
        tries.allow(f"tab {number}", f"{number}", 3.0 + number)
    assert len(tries._at) < 10  # what is over is forgotten
