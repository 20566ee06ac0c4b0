"""The agents of the shop. Run them in one process or in several:

triumvir run agent shop.agents:orders shop.agents:inventory shop.agents:payments shop.agents:shipping
"""

from __future__ import annotations

from typing import Any

from shop import bookings, remote
from shop.models import Booking, Checked, Order, Receipt, Reservation
from shop.settings import load
from triumvir.agent import Agent, Context, Permanent

settings = load()

orders = Agent("orders")
inventory = Agent("inventory")
payments = Agent("payments")
shipping = Agent("shipping")


@orders.operation("check-order")
def check_order(ctx: Context, order: Order) -> Checked:
    """Refuses what cannot be sold. Nothing was done yet, so such an order ends with nothing to undo."""
    if order.order_id.startswith("C"):
        raise Permanent(f"{order.order_id} is a cancellation, not an order; there is nothing to fulfil")
    for line in order.lines:
        if line.unit_price <= 0:
            raise Permanent(f"{line.sku} is priced {line.unit_price}; give it a price above zero to sell it")
        if line.quantity <= 0:
            raise Permanent(f"{line.quantity} pieces of {line.sku}: a return is not an order")
    if not order.lines:
        raise Permanent("the order has no lines; there is nothing to fulfil")
    return Checked(units=order.units, total=order.total)


@inventory.operation("reserve-stock", undo="release-stock")
async def reserve_stock(ctx: Context, order: Order) -> Reservation:
    lines = [{"sku": line.sku, "quantity": line.quantity} for line in order.lines]
    answer = await _call(ctx, settings.inventory_url + "/reservations", {"lines": lines})
    return Reservation.model_validate(answer)


@inventory.undo("release-stock")
async def release_stock(ctx: Context, order: Order, reservation: Reservation | None) -> None:
    await _call(ctx, settings.inventory_url + "/releases")


@payments.operation("charge-card", undo="refund")
async def charge_card(ctx: Context, order: Order) -> Receipt:
    charge = {"customer": order.customer_id, "amount": f"{order.total:.2f}"}
    return Receipt.model_validate(await _call(ctx, settings.payments_url + "/charges", charge))


@payments.undo("refund")
async def refund(ctx: Context, order: Order, receipt: Receipt | None) -> None:
    """The receipt is not sent: it may be unknown now and known at a repetition, and a key stands for one body."""
    await _call(ctx, settings.payments_url + "/refunds")


@shipping.operation("book-courier", undo="cancel-courier")
async def book_courier(ctx: Context, order: Order) -> Booking:
    """Asks for a quote, which changes nothing, and books in the transaction that completes the step."""
    parcel = {"country": order.country, "units": order.units}
    quote = await _call(ctx, settings.shipping_url + "/quotes", parcel, in_doubt="none")
    booking = Booking.model_validate(quote)
    async with ctx.transaction() as connection:
        await bookings.book(connection, _order_key(ctx), ctx.idempotency_key, ctx.fence, booking)
    return booking


@shipping.undo("cancel-courier")
async def cancel_courier(ctx: Context, order: Order, booking: Booking | None) -> None:
    async with ctx.transaction() as connection:
        await bookings.cancel(connection, _order_key(ctx), ctx.idempotency_key, ctx.fence)


async def _call(
    ctx: Context, url: str, body: dict[str, Any] | None = None, *, in_doubt: remote.Effect = "unknown"
) -> dict[str, Any]:
    return await remote.call(
        url,
        {"order": _order_key(ctx), **(body or {})},
        key=ctx.idempotency_key,
        patience=settings.patience,
        time_left=ctx.time_left,
        in_doubt=in_doubt,
    )


def _order_key(ctx: Context) -> str:
    """Order ids are unique per client only, so the shop's services know an order by both."""
    return f"{ctx.client}/{ctx.order_id}"
