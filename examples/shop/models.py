"""What the shop's orders look like, and what each step of one hands on."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, ConfigDict, PlainSerializer

Money = Annotated[Decimal, PlainSerializer(lambda amount: f"{amount:.2f}", return_type=str)]
"""Pounds and pence. On the wire a string of two places, never a float."""


class Line(BaseModel):
    """One line of an order: ``quantity`` pieces at ``unit_price`` each."""

    model_config = ConfigDict(frozen=True)
    sku: str
    description: str | None = None
    quantity: int
    unit_price: Decimal


class Order(BaseModel):
    """The payload of an order, one a line in an NDJSON file. A cancellation's ``order_id`` begins with C."""

    model_config = ConfigDict(frozen=True)
    order_id: str
    placed_at: str
    customer_id: str | None = None
    country: str
    lines: list[Line]

    @property
    def total(self) -> Decimal:
        return sum((line.quantity * line.unit_price for line in self.lines), Decimal(0))

    @property
    def units(self) -> int:
        return sum(line.quantity for line in self.lines)


class Checked(BaseModel):
    """``check-order``: what was found fit to be sold."""

    units: int
    total: Money


class Reservation(BaseModel):
    """``reserve-stock``: the number under which the stock is set aside."""

    reservation: str
    units: int


class Receipt(BaseModel):
    """``charge-card``: the payment's receipt."""

    receipt: str
    amount: Money


class Booking(BaseModel):
    """``book-courier``: who brings the parcel, and what that costs."""

    courier: str
    price: Money
