"""A storm over the real product: `python -m chaos --seed 1 --duration 600` (with `tests` on PYTHONPATH).

world.py starts the processes and servers, load.py writes as customers, approver.py decides, sink.py takes the
replies, faults.py breaks things, snapshot.py reads what is left, checker.py judges it, report.py prints it.
"""
