"""What a person sees of a ticket's memory."""

from __future__ import annotations

from producer.cli.ticket_view import print_ticket

FACT = {"kind": "id", "value": "INV-202603-0006", "shown": "INV-202603-0006", "speaker": "customer", "turn": 0, "count": 2, "later": False,
        "about": "", "folded": True}
TICKET = {"ticket_id": "T000001", "status": "answered", "turns": [], "summary": "- 账单待查", "summarized_upto": 9, "profile": "", "context": "",
          "ledger": [FACT], "view": {"tokens": 260, "budget": 200, "irreducible": True, "recalled": [2], "by_rule": False}}


def test_a_fold_its_facts_and_what_is_over_budget_are_shown(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "140")
    print_ticket(TICKET)
    shown = " ".join(capsys.readouterr().out.split())
    for said in ("folded up to entry 9", "recalled in the last turn: entry 3", "260 tokens of 200, nothing is left to fold",
                 "INV-202603-0006", "customer (claim)", "folded"):
        assert said in shown


def test_a_ticket_of_an_older_release_is_shown_too(capsys):
    print_ticket({**TICKET, "ledger": [], "view": {}})
    assert "folded up to entry 9" in capsys.readouterr().out
