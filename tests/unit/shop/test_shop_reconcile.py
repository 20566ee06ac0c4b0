from __future__ import annotations

from typing import Any

import pytest

from shop.reconcile import differences, really_undone

STEPS = {"inventory": "reserve", "payments": "charge", "shipping": "ship"}


def effect(
    service: str, direction: str, at: float, order: str = "shop/1", amount: str = "5"
) -> dict[str, Any]:
    key = f"{order}/{STEPS[service]}/{direction}/0"
    return {
        "service": service,
        "order": order,
        "direction": direction,
        "key": key,
        "amount": amount,
        "at": at,
    }


def done(order: str = "shop/1") -> list[dict[str, Any]]:
    return [effect(service, "do", at, order) for at, service in enumerate(STEPS)]


UNDONE = [
    effect("inventory", "do", 1),
    effect("payments", "do", 2),
    effect("payments", "undo", 3),
    effect("inventory", "undo", 4),
]


def test_orders_that_agree_have_no_differences() -> None:
    effects = [*done("shop/2"), *UNDONE]
    ends = {"shop/1": "compensated", "shop/2": "processed", "shop/3": "compensated", "shop/4": "cancelled"}
    assert differences(effects, ends, refused={"shop/3"}, calls=effects) == []


@pytest.mark.parametrize("missing", range(3))
def test_a_processed_order_without_one_of_its_effects_is_a_difference(missing: int) -> None:
    effects = [made for at, made in enumerate(done()) if at != missing]
    (found,) = differences(effects, {"shop/1": "processed"})
    assert f"{list(STEPS)[missing]} has 0 effects" in found


def test_a_double_booking_is_a_difference() -> None:
    again = effect("shipping", "do", 9)
    (by_key, by_order) = differences([*done(), again], {"shop/1": "processed"})
    assert "2 effects at shipping under one key" in by_key
    assert "shipping has 2 effects" in by_order


def test_an_effect_that_was_not_undone_is_a_difference() -> None:
    (found,) = differences(UNDONE[:3], {"shop/1": "compensated"})
    assert "inventory has 1 effects and 0 undos" in found


def test_an_undo_of_nothing_is_a_difference() -> None:
    (found,) = differences([effect("payments", "undo", 1)], {"shop/1": "compensated"})
    assert "payments has 0 effects and 1 undos" in found


def test_undos_in_the_order_of_the_steps_are_a_difference() -> None:
    effects = [*UNDONE[:2], effect("inventory", "undo", 3), effect("payments", "undo", 4)]
    (found,) = differences(effects, {"shop/1": "compensated"})
    assert found.endswith("undone in the order inventory, payments; it should be payments, inventory")


def test_an_undo_before_its_effect_is_a_difference() -> None:
    effects = [effect("payments", "undo", 1), effect("payments", "do", 2)]
    (found,) = differences(effects, {"shop/1": "compensated"})
    assert "undid it before it was done" in found


def test_another_amount_undone_than_done_is_a_difference() -> None:
    effects = [effect("payments", "do", 1), effect("payments", "undo", 2, amount="4.99")]
    (found,) = differences(effects, {"shop/1": "compensated"})
    assert found.endswith("0.01 is left")


def test_a_call_for_an_order_refused_by_the_check_is_a_difference() -> None:
    call = {**effect("inventory", "do", 1), "kind": "call"}
    (found,) = differences([], {"shop/1": "compensated"}, refused={"shop/1"}, calls=[call])
    assert "a service was called for it" in found


def test_an_effect_of_an_unknown_order_is_a_difference() -> None:
    (found,) = differences([effect("payments", "do", 1)], {})
    assert "does not know" in found


@pytest.mark.parametrize("state", ["pending", "processing", "error", "compensation_failed"])
def test_an_order_that_has_not_ended_is_a_difference(state: str) -> None:
    (found,) = differences([], {"shop/1": state})
    assert found == f"shop/1 ({state}): it has not come to an end"


@pytest.mark.parametrize(
    "steps",
    [
        {"inventory": "undone", "payments": "undone"},
        {
            "inventory": "undone",
            "payments": "undone",
            "shipping": "undone",
        },  # in doubt, and nothing was found
    ],
)
def test_steps_recorded_as_they_were_agree(steps: dict[str, Any]) -> None:
    assert differences(UNDONE, {"shop/1": "compensated"}, recorded={"shop/1": steps}) == []


@pytest.mark.parametrize("step", ["done", "none", "in doubt"])
def test_a_step_recorded_as_something_else_is_a_difference(step: Any) -> None:
    recorded = {"shop/1": {"inventory": step, "payments": "undone"}}
    (found,) = differences(UNDONE, {"shop/1": "compensated"}, recorded=recorded)
    assert found == (
        f"shop/1: the store has the step at inventory as {step}, and the ledger 1 effects and 1 undos"
    )


def test_really_undone_names_the_orders_with_an_undone_effect() -> None:
    assert really_undone([*UNDONE, *done("shop/2")]) == {"shop/1"}
