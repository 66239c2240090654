"""`desk.delivery_rates`: how fast a channel is written to, over all processes, whatever their number."""

from __future__ import annotations

from supportpilot.db.pool import Connection

MINUTE_SECONDS = 60.0


def take(conn: Connection, channel: str, per_minute: int, *, waited: bool) -> float:
    """Take a place in the channel's minute: 0.0, or the seconds after which the row should come again.

    At most `per_minute` leave in any minute, a tenth of them at once. Who comes first waits behind those who `waited`
    already. The row of the channel is locked last of all, and until the transaction's end.
    """
    saved = max(1, per_minute // 10)
    step = MINUTE_SECONDS / (per_minute - saved + 1)
    conn.execute("INSERT INTO desk.delivery_rates (channel, free_at, queue_at) VALUES (%s, '-infinity', '-infinity') "
                 "ON CONFLICT DO NOTHING", (channel,))
    conn.execute("SELECT 1 FROM desk.delivery_rates WHERE channel = %s FOR UPDATE", (channel,))
    row = conn.execute(
        """
        WITH clock AS (SELECT clock_timestamp() AS now),
        seen AS (SELECT r.channel, now, greatest(r.free_at, now) AS free,
                        greatest(r.free_at, now) - make_interval(secs => %(step)s * %(saved)s - %(step)s) AS open_at,
                        greatest(r.queue_at, now) AS queue
                 FROM desk.delivery_rates r, clock WHERE r.channel = %(channel)s),
        judged AS (SELECT *, open_at <= now AND (%(waited)s OR queue <= now) AS goes FROM seen)
        UPDATE desk.delivery_rates r
        SET free_at = CASE WHEN goes THEN free + make_interval(secs => %(step)s) ELSE r.free_at END,
            queue_at = CASE WHEN goes THEN r.queue_at ELSE greatest(queue, open_at) + make_interval(secs => %(step)s) END
        FROM judged WHERE r.channel = judged.channel
        RETURNING goes, extract(epoch FROM greatest(queue, open_at) - now)::float AS seconds
        """, {"channel": channel, "step": step, "saved": saved, "waited": waited}).fetchone()
    assert row is not None  # noqa: S101 -- the row was inserted above
    return 0.0 if row["goes"] else max(float(row["seconds"]), 0.001)
