"""The three remote services of the shop: inventory, payments and shipping. They know nothing of Triumvir.

Each is a process of its own with real sockets, slow and flaky by the rules of ``chance.py``, and keeps a ledger
of every call and every effect (``ledger.py``) that outlives it.
"""
