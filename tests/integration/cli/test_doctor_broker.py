"""Each thing that can be wrong with RabbitMQ is said in plain words, with what to do."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from datetime import timedelta

import aio_pika
import pytest

from tests.integration.cli.ailing import as_user, problems, quoted_vhost, use
from tests.integration.cli.conftest import Triumvir
from tests.integration.cli.masks import management_whose_clock_is_off, masked, rabbitmq_of_version
from tests.servers import ServerSet
from triumvir.broker import connect, core_topology, declare, status_queue
from triumvir.local import PrivateServers
from triumvir.settings import Settings

NOWHERE = "127.0.0.1:9"


@pytest.fixture
async def declared(settings: Settings) -> None:
    connection = await connect(settings.broker_url, "test setup")
    await declare(connection, core_topology(quorum=False))
    await connection.close()


@pytest.fixture
def stranger(client_name: str, server_set: ServerSet) -> str:
    """A RabbitMQ user that may do nothing."""
    server_set.manage("PUT", f"users/{client_name}", {"password": "secret", "tags": ""})
    return client_name


def test_an_unreachable_broker_is_one_cause_and_the_settings_are_named(
    triumvir: Triumvir, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(
        monkeypatch,
        broker_url=f"amqp://nobody:secret@{NOWHERE}/",
        management_url=f"http://nobody:secret@{NOWHERE}",
    )
    found = problems(triumvir)
    assert NOWHERE in found["broker"]["problem"]
    assert "TRIUMVIR_BROKER_URL" in found["broker"]["fix"]
    assert found["management"]["fix"] == "see the broker first"
    assert "secret" not in str(found)


def test_a_wrong_password_is_not_taken_for_an_unreachable_broker(
    triumvir: Triumvir, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    use(monkeypatch, broker_url=as_user(settings.broker_url, "nobody", "wrong"))
    found = problems(triumvir)
    assert "refused user 'nobody': wrong name or password" in found["broker"]["problem"]
    assert "correct user, password" in found["broker"]["fix"]


def test_a_user_without_the_vhost_is_told_the_command(
    triumvir: Triumvir, monkeypatch: pytest.MonkeyPatch, settings: Settings, stranger: str
) -> None:
    use(monkeypatch, broker_url=as_user(settings.broker_url, stranger, "secret"))
    found = problems(triumvir)
    assert "does not let user" in found["broker"]["problem"]
    assert "may do nothing in vhost" in found["permissions"]["problem"]
    assert f" {stranger} '.*' '.*' '.*'" in found["permissions"]["fix"]


def test_a_vhost_that_does_not_exist_is_told_the_command(
    triumvir: Triumvir, monkeypatch: pytest.MonkeyPatch, server_set: ServerSet
) -> None:
    elsewhere = re.sub(r"/[^/]*$", "/no-such-vhost", server_set.broker_url)
    use(monkeypatch, broker_url=elsewhere)
    assert problems(triumvir)["vhost"]["fix"].startswith("rabbitmqctl add_vhost no-such-vhost")


def test_a_management_user_that_is_no_administrator_is_told_the_command(
    triumvir: Triumvir, monkeypatch: pytest.MonkeyPatch, settings: Settings, stranger: str
) -> None:
    use(monkeypatch, management_url=as_user(settings.management_url, stranger, "secret"))
    found = problems(triumvir)
    assert f"refused user {stranger!r}" in found["management"]["problem"]
    assert "set_user_tags" in found["management"]["fix"]


@pytest.mark.parametrize(
    ("refused", "pattern", "named"),
    [
        ("write", "^orders$", "triumvir, triumvir.dead, orders.dead and others"),
        ("configure", "", "orders, triumvir, triumvir.dead and others"),
        ("read", "^(orders|triumvir|scheduler).*", "alerts (its"),
    ],
)
def test_a_user_that_may_not_do_what_services_do_is_told_what_and_the_command(
    triumvir: Triumvir,
    declared: None,
    settings: Settings,
    server_set: ServerSet,
    stranger: str,
    monkeypatch: pytest.MonkeyPatch,
    refused: str,
    pattern: str,
    named: str,
) -> None:
    rights = {"configure": ".*", "write": ".*", "read": ".*", refused: pattern}
    server_set.manage("PUT", f"permissions/{quoted_vhost(settings.broker_url)}/{stranger}", rights)
    use(monkeypatch, broker_url=as_user(settings.broker_url, stranger, "secret"))
    found = problems(triumvir)
    assert f"may not {refused} {named}" in found["permissions"]["problem"]
    assert (
        f"set_permissions -p {settings.broker_url.rpartition('/')[2]} {stranger}"
        in found["permissions"]["fix"]
    )
    assert "broker" not in found


@pytest.mark.parametrize("version", ["3.9.29", "3.8.34"])
def test_a_broker_that_is_too_old_is_told(
    triumvir: Triumvir, monkeypatch: pytest.MonkeyPatch, settings: Settings, version: str
) -> None:
    with masked(settings.broker_url, rabbitmq_of_version(version)) as url:
        use(monkeypatch, broker_url=url)
        found = problems(triumvir)
    assert found["broker"] == {
        "problem": f"RabbitMQ {version} is too old",
        "fix": "upgrade the server to 3.10 or newer",
    }


@pytest.mark.parametrize("version", ["3.10.0", "4.1.2", "10.0.0"])
def test_the_oldest_broker_that_will_do_and_later_ones_are_fine(
    triumvir: Triumvir, monkeypatch: pytest.MonkeyPatch, settings: Settings, version: str
) -> None:
    with masked(settings.broker_url, rabbitmq_of_version(version)) as url:
        use(monkeypatch, broker_url=url)
        said = triumvir("doctor", code=1)
    assert f"ok    broker: RabbitMQ {version}" in said


@pytest.mark.parametrize(
    ("hours", "words"), [(2, "it is 2 h ahead of this machine's"), (-2, "it is 2 h behind this machine's")]
)
def test_a_broker_whose_clock_is_off_is_told_by_how_much(
    triumvir: Triumvir, monkeypatch: pytest.MonkeyPatch, settings: Settings, hours: int, words: str
) -> None:
    with masked(settings.management_url, management_whose_clock_is_off(timedelta(hours=hours))) as url:
        use(monkeypatch, management_url=url)
        found = problems(triumvir)
    assert found["clock of the broker"]["problem"] == words
    assert "time server" in found["clock of the broker"]["fix"]


@pytest.fixture
def without_management(private_servers: PrivateServers) -> Iterator[None]:
    private_servers.broker.plugins("disable", "rabbitmq_management")
    yield
    private_servers.broker.plugins("enable", "rabbitmq_management")


def test_a_broker_without_the_management_plugin_is_told_the_command(
    private_settings: Settings,
    without_management: None,
    triumvir: Triumvir,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(
        monkeypatch,
        broker_url=private_settings.broker_url,
        management_url=private_settings.management_url,
        database_url=private_settings.database_url,
    )
    found = problems(triumvir)
    assert "broker" not in found
    assert "is RabbitMQ's plugin rabbitmq_management on?" in found["management"]["problem"]
    assert "not looked at: permissions, queues, clients" in found["management"]["problem"]
    assert "rabbitmq-plugins enable rabbitmq_management" in found["management"]["fix"]


def test_before_the_first_service_there_are_no_queues(triumvir: Triumvir) -> None:
    found = problems(triumvir)
    assert found["queues"] == {
        "problem": "there are none yet, nor exchanges",
        "fix": "start or restart a service: each declares what it needs",
    }


def test_what_is_missing_of_queues_exchanges_and_bindings_is_named(
    triumvir: Triumvir, declared: None, settings: Settings, server_set: ServerSet
) -> None:
    vhost = quoted_vhost(settings.broker_url)
    assert "queues" not in problems(triumvir)
    server_set.manage("DELETE", f"queues/{vhost}/scheduler.wake")
    server_set.manage("DELETE", f"exchanges/{vhost}/triumvir.dead")
    server_set.manage("DELETE", f"bindings/{vhost}/e/orders/q/orders/~")
    assert problems(triumvir)["queues"]["problem"] == (
        "missing: exchange triumvir.dead, queue scheduler.wake, binding of queue orders to exchange orders"
    )


def test_an_exchange_of_another_kind_is_named(
    triumvir: Triumvir, declared: None, settings: Settings, server_set: ServerSet
) -> None:
    place = f"exchanges/{quoted_vhost(settings.broker_url)}/triumvir.dead"
    server_set.manage("DELETE", place)
    server_set.manage("PUT", place, {"type": "topic", "durable": True})
    assert problems(triumvir)["exchange triumvir.dead"]["problem"] == "it is topic instead of direct"


@pytest.fixture
def altered(declared: None, settings: Settings, server_set: ServerSet) -> str:
    """A queue that exists with other arguments; its name."""
    place = f"queues/{quoted_vhost(settings.broker_url)}/alerts"
    server_set.manage("DELETE", place)
    server_set.manage("PUT", place, {"durable": True, "arguments": {"x-max-length": 7}})
    return "alerts"


def test_a_queue_with_other_arguments_is_named_with_each_difference(triumvir: Triumvir, altered: str) -> None:
    found = problems(triumvir)[f"queue {altered}"]
    assert "x-max-length is 7 instead of 100000" in found["problem"]
    assert "x-overflow is 'not set' instead of 'drop-head'" in found["problem"]
    assert "rabbitmqctl delete_queue" in found["fix"]


def _kinds(definitions: bytes) -> dict[str, list[str]]:
    """Queues, exchanges, bindings, policies, each in one order."""
    everything = json.loads(definitions).items()
    return {kind: sorted(map(json.dumps, found)) for kind, found in everything if isinstance(found, list)}


async def test_looking_at_a_queue_with_other_arguments_disturbs_nobody_who_uses_it(
    triumvir: Triumvir, altered: str, settings: Settings, server_set: ServerSet
) -> None:
    definitions = f"definitions/{quoted_vhost(settings.broker_url)}"
    async with await aio_pika.connect(settings.broker_url) as connection:
        channel = await connection.channel()
        await channel.set_qos(1)
        queue = await channel.get_queue(altered, ensure=False)
        heard: asyncio.Queue[aio_pika.abc.AbstractIncomingMessage] = asyncio.Queue()
        await queue.consume(heard.put)
        for text in (b"in hand", b"waiting"):
            await channel.default_exchange.publish(aio_pika.Message(text), altered)
        in_hand = await asyncio.wait_for(heard.get(), 10)
        before = _kinds(await asyncio.to_thread(server_set.manage, "GET", definitions))

        found = await asyncio.to_thread(problems, triumvir)
        assert f"queue {altered}" in found

        assert _kinds(await asyncio.to_thread(server_set.manage, "GET", definitions)) == before
        assert heard.empty()  # what is in hand was not handed out again
        await in_hand.ack()
        waiting = await asyncio.wait_for(heard.get(), 10)
        assert (waiting.body, waiting.redelivered) == (b"waiting", False)
        assert not channel.is_closed


def test_a_client_without_its_queue_gets_it_back_by_the_command_that_is_named(
    triumvir: Triumvir, client_name: str, settings: Settings, server_set: ServerSet
) -> None:
    triumvir("clients", "add", client_name)
    server_set.manage("DELETE", f"queues/{quoted_vhost(settings.broker_url)}/{status_queue(client_name)}")
    fix = problems(triumvir)[f"client {client_name}"]["fix"]
    triumvir(*fix.rpartition("triumvir ")[2].split())
    assert f"client {client_name}" not in problems(triumvir)
