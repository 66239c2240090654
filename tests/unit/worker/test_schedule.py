"""What beat sends."""

from __future__ import annotations

import re

from celery.schedules import crontab

from supportpilot.config import load_settings
from worker.queues import ROUTES
from worker.schedule import entries


def test_beat_sweeps_every_sweep_seconds_and_looks_for_late_approvals_quiet_tickets_and_overdue_promises_every_minute():
    schedule = entries(load_settings(sweep_seconds=7))
    assert {name: entry["schedule"] for name, entry in schedule.items() if name.startswith("desk.")} == {
        "desk.sweep": 7, "desk.expire_approvals": 60, "desk.settle": 60, "desk.overdue": 60}


def test_beat_looks_for_old_profiles_and_deletes_what_is_long_over_once_a_night_in_china():
    schedule = entries(load_settings())
    assert schedule["memory.sweep_profiles"]["schedule"] == crontab(hour="17", minute="10")
    assert schedule["memory.retain"]["schedule"] == crontab(hour="19", minute="20")


def test_beat_looks_for_articles_to_embed_every_two_minutes_where_a_model_is_set():
    assert entries(load_settings(embedding_model="m"))["kb.embed"]["schedule"] == 120
    assert "kb.embed" not in entries(load_settings())


def test_beat_sends_only_tasks_that_have_a_queue():
    assert {entry["task"] for entry in entries(load_settings()).values()} <= set(ROUTES)


def test_ticks_that_nobody_took_do_not_pile_up():
    for entry in entries(load_settings(sweep_seconds=5)).values():
        between = entry["schedule"] if isinstance(entry["schedule"], int | float) else 0      # else once a day, at its hour
        assert 86_400 > entry["options"]["expires"] >= max(3600, between), "a desk's clock may be ahead of beat's"


def test_no_module_but_the_configuration_by_name_knows_the_schedule():
    source = __import__("worker.app", fromlist=["app"]).__file__
    with open(source, encoding="utf-8") as file:
        assert not re.search(r"^\s*(from|import) worker\.schedule", file.read(), re.MULTILINE)
