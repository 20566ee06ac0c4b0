"""The demo: plays the shop on private servers, kills an agent and the scheduler, and checks that nothing is amiss.

python -m shop.demo [ORDERS] [--seed N] [--keep]
"""
