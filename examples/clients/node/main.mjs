// node main.mjs URL WORKFLOW ORDER_ID [PAYLOAD] [--cancel]: submits one order and prints its statuses, a JSON line each.

import { connect } from "./triumvir.mjs";

const [url, workflow, orderId, payload = "{}"] = process.argv.slice(2).filter((part) => part !== "--cancel");
if (!orderId) {
  console.error("usage: node main.mjs URL WORKFLOW ORDER_ID [PAYLOAD] [--cancel]");
  process.exit(2);
}
const client = await connect(url);
await client.submit(workflow, JSON.parse(payload), orderId);
if (process.argv.includes("--cancel")) await client.cancel(orderId, "changed my mind");
for await (const status of client.statuses(orderId)) console.log(JSON.stringify(status));
await client.close();
