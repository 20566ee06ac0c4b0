"""Whatever the strict parse admits has a digest, and equal orders have equal ones."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from triumvir.contracts.codec import decode_strictly
from triumvir.contracts.messages import OrderSubmit
from triumvir.errors import ContractError
from triumvir_submitter.admission import digest

TEXTS = st.text() | st.sampled_from(["\ud800", "\x00", "\u2028", "\U0010ffff", "é", "\x7f", '"\\/'])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats()
    | st.sampled_from([5e-324, -0.0, 1e21, 1.7976931348623157e308, 2.0**53, 1e-7])
    | TEXTS
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=20)


def _submission(payload: Any, **how: Any) -> bytes:
    members = {"order_id": "one", "workflow": "trio", "payload": payload}
    return json.dumps(members, **how).encode("utf-8", "surrogatepass")


def _digest(body: bytes) -> bytes | None:
    """None if it is refused."""
    try:
        return digest(decode_strictly(OrderSubmit, body, max_bytes=2**20, max_depth=64))
    except ContractError:
        return None


@given(st.dictionaries(TEXTS, VALUES))
def test_what_is_admitted_has_a_digest_whatever_its_spelling(payload: dict[str, Any]) -> None:
    plain = _digest(_submission(payload))
    assert plain is None or len(plain) == 32
    assert _digest(_submission(payload, indent=3)) == plain
    assert _digest(_submission(dict(reversed(payload.items())))) == plain


@given(st.binary())
def test_no_bytes_do_more_than_be_refused(body: bytes) -> None:
    assert _digest(body) is None


@given(st.dictionaries(st.text(st.characters(codec="ascii")), SCALARS, min_size=1), st.data())
def test_another_payload_has_another_digest(payload: dict[str, Any], data: st.DataObject) -> None:
    changed = payload | {data.draw(st.sampled_from(sorted(payload))): "changed"}
    one, other = _digest(_submission(payload)), _digest(_submission(changed))
    assert one is None or changed == payload or one != other
