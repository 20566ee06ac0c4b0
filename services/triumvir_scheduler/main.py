"""The scheduler's process, wired top to bottom."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from triumvir.broker import REPLIES, WAKE, core_topology
from triumvir.runtime.broker_link import open_broker
from triumvir.runtime.chassis import Chassis
from triumvir.runtime.decisions import Decider
from triumvir.runtime.definitions import Definitions
from triumvir.runtime.drain import FLUSH, TAKING
from triumvir.runtime.intake import Intake
from triumvir.runtime.lease import Lease
from triumvir.runtime.loops import Loop
from triumvir.runtime.relay import Relay
from triumvir.runtime.service import run_service
from triumvir.runtime.undeliverable import Undeliverable
from triumvir.store.session import Store
from triumvir_scheduler.claims import Claims
from triumvir_scheduler.commands import Commands
from triumvir_scheduler.replies import Replies
from triumvir_scheduler.stage import Stage
from triumvir_scheduler.sweep import Sweep
from triumvir_scheduler.timers import Timers
from triumvir_scheduler.wakes import Wakes
from triumvir_scheduler.windows import Windows


async def serve(chassis: Chassis) -> None:
    """Store, broker, stages, loops."""
    settings, limit = chassis.settings, chassis.settings.batch_limit
    store = await chassis.enter(Store(settings, chassis.name))
    broker = await chassis.enter(open_broker(chassis, core_topology(quorum=settings.quorum_queues)))
    definitions = Definitions()
    relay = Relay(broker.publisher, store.session("outbox"))
    decider = Decider(chassis.name, UUID(chassis.instance), settings, definitions)
    windows = Windows(store.session("windows"), definitions, limit)

    def stage(name: str) -> Stage:
        return Stage(name, store.session(name), relay, decider, windows)

    await Lease(chassis, store.session("lease")).start(chassis)
    await windows.refresh()
    claims = Claims(stage("claims"), limit, broker.publisher.oldest_unconfirmed_age)
    commands = Commands(stage("commands"), limit)
    timers = Timers(stage("timers"), store.session("next timer"), limit, settings.poll_interval)
    sweep = Sweep(store.session("sweep"), relay, definitions, settings)
    claim_loop = Loop("claims", claims.step, settings.poll_interval)
    command_loop = Loop("commands", commands.step, settings.poll_interval)
    undeliverable = Undeliverable(store.session("dead letters"), relay, settings)
    replies = Replies(stage("replies"), undeliverable, lambda: claims.wake_if_starved(claim_loop.wake))
    reply_consumer = await broker.consume(REPLIES, settings.prefetch)
    wake_consumer = await broker.consume(WAKE, settings.prefetch)
    intake = Intake(
        reply_consumer,
        replies.handle,
        undeliverable.quarantine,
        store.session("marks"),
        limit,
        "scheduler.reply.after_ack",
    )
    wakes = Wakes(wake_consumer, [claim_loop.wake, command_loop.wake])
    for loop in (
        Loop("replies", intake.step, settings.poll_interval),
        Loop("wakes", wakes.step, settings.poll_interval),
        Loop("timers", timers.step, settings.poll_interval),
        Loop("sweep", sweep.step, settings.poll_interval),
        claim_loop,
        command_loop,
    ):
        chassis.add_loop(loop)
    chassis.add_readiness("database", store.ready)
    chassis.on_drain("stop taking", broker.stop_taking, order=TAKING)
    chassis.on_drain("relay", relay.drain, order=FLUSH)


def main(args: Sequence[str] = ()) -> None:
    """Runs the scheduler until it is told to stop."""
    run_service("scheduler", serve)
