"""The clock of an audit adds up what is done under one name."""

from divulge.auditing import prepared


def test_seconds_of_one_name_are_added(monkeypatch):
    ticks = iter([10.0, 12.5, 100.0, 101.0, 200.0, 204.0])
    monkeypatch.setattr(prepared.time, "perf_counter", lambda: next(ticks))
    log = prepared.AuditLog()
    assert [log.run_timed(name, lambda: 7) for name in ("target", "target", "attack")] == [7, 7, 7]
    assert log.timings == {"target": 3.5, "attack": 4.0}
