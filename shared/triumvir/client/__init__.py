"""What submits orders: the client, its orders, and how they end."""

from triumvir.client.client import Client, Submitted
from triumvir.client.order import Order
from triumvir.client.submission import Submission

__all__ = ["Client", "Order", "Submission", "Submitted"]
