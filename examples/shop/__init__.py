"""A small shop on Triumvir: check the order, reserve the stock, charge the card, book a courier.

Read ``workflow.py``, then ``agents.py``. ``services/`` are the three remote services that the agents call.
"""
