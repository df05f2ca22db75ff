"""Every reader of a server's answers, and one that misbehaves: the right answer, or an error that says what came."""

import pytest

from fuzz import judge, servers

pytest.importorskip("httpx")


@pytest.fixture(scope="module")
def server():
    with servers.Server().running() as running:
        yield running


@pytest.mark.parametrize("reader", servers.READERS, ids=lambda reader: reader.name)
def test_a_misbehaving_server_is_an_error_that_says_what_it_sent(reader, server):
    tally = judge.Tally(reader.name)
    servers.run(tally, reader, server)
    print(tally)
    assert not tally.violations
