// A client of Triumvir in plain JavaScript, written from docs/contract/asyncapi.json alone.
//
//   import { connect } from "./triumvir.mjs";
//   const client = await connect("amqp://shop-a:password@localhost:5672/");
//   await client.submit("order-fulfilment", { sku: "84029G" }, "order-1");
//   for await (const status of client.statuses("order-1")) console.log(status.status);

import { EventEmitter, on } from "node:events";
import amqp from "amqplib";

const ENDS = new Set(["completed", "compensated", "cancelled", "closed", "rejected", "unknown_order"]);

/** Connects as the client that the URL's user names. One connection per process and status queue. */
export async function connect(url) {
  const name = decodeURIComponent(new URL(url).username);
  const connection = await amqp.connect(url);
  const channel = await connection.createConfirmChannel();
  const client = new Client(name, connection, channel);
  await channel.prefetch(100);
  await channel.consume(client.queue, (message) => client.receive(message));
  return client;
}

class Client {
  constructor(name, connection, channel) {
    this.name = name;
    this.queue = `status.${name}`;
    this.connection = connection;
    this.channel = channel;
    this.seen = new Map(); // order id -> statuses by sequence
    this.arrivals = new EventEmitter().setMaxListeners(0);
  }

  /** Submits an order; resolves once the broker has it. Submitting an equal order again is safe. */
  submit(workflow, payload, orderId) {
    return this.send("order.submit.v1", `${this.name}/${orderId}/submit`, { order_id: orderId, workflow, payload });
  }

  /** Asks for the order to be stopped, or undone if anything was begun; a status tells which. */
  cancel(orderId, reason) {
    const id = `${this.name}/${orderId}/cancel/${process.hrtime.bigint()}`;
    return this.send("order.cancel.v1", id, { order_id: orderId, reason });
  }

  /** Asks for every status from `sequence` on to be sent again. */
  query(orderId, sequence = 1) {
    const id = `${this.name}/${orderId}/query/${process.hrtime.bigint()}`;
    return this.send("order.query.v1", id, { order_id: orderId, from_sequence: sequence });
  }

  /** Every status of one order, each once and in order; ends with the status that ends the order. */
  async *statuses(orderId) {
    let next = 1;
    const changes = on(this.arrivals, orderId);
    for (;;) {
      const known = this.seen.get(orderId) ?? new Map();
      for (; known.has(next); next++) {
        yield known.get(next);
        if (ENDS.has(known.get(next).status)) return;
      }
      if (next === 1 && known.has(0)) return yield known.get(0); // refused: it never was an order
      if ([...known.keys()].some((sequence) => sequence > next)) await this.query(orderId, next);
      await changes.next();
    }
  }

  receive(message) {
    if (message === null) throw new Error(`${this.queue} was deleted`);
    const status = JSON.parse(message.content.toString("utf8"));
    if (!this.seen.has(status.order_id)) this.seen.set(status.order_id, new Map());
    this.seen.get(status.order_id).set(status.sequence, status);
    this.arrivals.emit(status.order_id);
    this.channel.ack(message);
  }

  send(type, messageId, body) {
    const options = {
      type,
      messageId,
      correlationId: `${this.name}/${body.order_id}`,
      userId: this.name,
      replyTo: this.queue,
      contentType: "application/json",
      persistent: true,
      mandatory: true,
      timestamp: Math.floor(Date.now() / 1000),
    };
    return new Promise((resolve, reject) => {
      const content = Buffer.from(JSON.stringify(body));
      this.channel.publish("orders", "", content, options, (error) => (error ? reject(error) : resolve()));
    });
  }

  async close() {
    await this.channel.close();
    await this.connection.close();
  }
}
