"""The scheduler's process, wired top to bottom."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

from triumvir.broker import REPLIES, WAKE, core_topology
from triumvir.runtime import drain, orders_database, recent
from triumvir.runtime.broker_link import open_broker
from triumvir.runtime.chassis import Chassis
from triumvir.runtime.decisions import Decider, sensible_policy
from triumvir.runtime.definitions import Definitions
from triumvir.runtime.intake import Intake
from triumvir.runtime.lease import Lease
from triumvir.runtime.loops import Loop
from triumvir.runtime.relay import Relay
from triumvir.runtime.service import run_service
from triumvir.runtime.undeliverable import Undeliverable
from triumvir.store.session import Store
from triumvir_scheduler import claims, commands, replies, stage, sweep, timers, wakes, windows


async def serve(chassis: Chassis) -> None:
    """Store, broker, stages, loops."""
    settings, limit, poll = chassis.settings, chassis.settings.batch_limit, chassis.settings.poll_interval
    store = await chassis.enter(Store(settings, chassis.name))
    broker = await chassis.enter(open_broker(chassis, core_topology(quorum=settings.quorum_queues)))
    definitions, commanded, lately = Definitions(), asyncio.Event(), recent.Recent(store.connects)
    relay = Relay(broker.publisher, store.session("outbox"))
    payloads = await orders_database.open_payloads(chassis, store)
    decider = Decider(chassis.name, UUID(chassis.instance), settings, definitions, payloads, lately)
    view = windows.Windows(store.session("windows"), definitions, limit)
    aside = Undeliverable(store.session("dead letters"), relay, settings)
    shared = stage.Shared(store, relay, decider, view)
    claiming = claims.Claims(stage.Stage("claims", shared), limit, broker.publisher.oldest_unconfirmed_age)
    commanding = commands.Commands(stage.Stage("commands", shared), limit)
    timing = timers.Timers(stage.Stage("timers", shared), store.session("next timer"), limit, poll)
    sweeping = sweep.Sweep(store.session("sweep"), relay, definitions, settings, payloads)
    folding = replies.Replies(stage.Stage("replies", shared), aside, claiming.wake_if_starved)
    await Lease(chassis, store.session("lease")).start(chassis)
    await view.refresh()
    answers, marks = await broker.consume(REPLIES, settings.prefetch), store.session("marks")
    hints = wakes.Wakes(await broker.consume(WAKE, settings.prefetch), view, shared.claimable, commanded)
    intake = Intake(answers, folding.handle, aside.quarantine, marks, limit, "scheduler.reply.after_ack")
    chassis.add_loop(Loop("replies", intake.step, poll))
    chassis.add_loop(Loop("wakes", hints.step, poll))
    chassis.add_loop(Loop("timers", timing.step, poll))
    chassis.add_loop(Loop("sweep", sweeping.step, poll))
    chassis.add_loop(Loop("claims", claiming.step, poll, shared.claimable))
    chassis.add_loop(Loop("commands", commanding.step, poll, commanded))
    chassis.add_readiness("database", store.ready)
    chassis.on_drain("stop taking", broker.stop_taking, order=drain.TAKING)
    chassis.on_drain("relay", relay.drain, order=drain.FLUSH)


def main(args: Sequence[str] = ()) -> None:
    """Runs the scheduler until it is told to stop."""
    run_service("scheduler", serve, check=sensible_policy, args=args)
