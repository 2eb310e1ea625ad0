// Signs deliveries with the libraries that senders use, and posts them: each as
// it is, and each with one thing changed after it was signed.
import { sign } from "@octokit/webhooks-methods";
import { Webhook } from "standardwebhooks";

const [url, standardSecret, otherStandard, githubSecret, otherGithub] = process.argv.slice(2);

const bodies = {
  plain: JSON.stringify({ type: "ticket.updated", data: { id: "007" } }),
  escapes: '{"a":"\\u001B","b":"\\u001b","c":"\\/"}',
  emoji: JSON.stringify({ title: "🎉 Größe 日本語 \u2028" }),
  spaces: '{ "a" : 1.0 ,\r\n\t"a2" : 1e2 }\n',
  large: JSON.stringify({ body: "x".repeat(200_000) }),
};

async function post(name, headers, body) {
  const answer = await fetch(url, { method: "POST", body, headers: { "Content-Type": "application/json", "X-Case": name, ...headers } });
  await answer.arrayBuffer();
}

// changed is another valid document of the same length.
const changed = (body) => body.replace(/[a-z0-9](?=[^a-z0-9]*$)/, (c) => (c === "1" ? "2" : c === "x" ? "y" : "1"));

async function standard(name, body, { secret = standardSecret, at = new Date(), send = {}, sent = body } = {}) {
  const id = "msg_" + Math.random().toString(36).slice(2);
  const stamp = Math.floor(at.getTime() / 1000);
  const headers = {
    "webhook-id": id,
    "webhook-timestamp": String(stamp),
    "webhook-signature": new Webhook(secret).sign(id, new Date(stamp * 1000), body),
  };
  await post(`standard/${name}`, { ...headers, ...send }, sent);
}

async function github(name, body, { secret = githubSecret, sent = body } = {}) {
  await post(`github/${name}`, {
    "X-GitHub-Delivery": crypto.randomUUID(), "X-GitHub-Event": "issues", "X-Hub-Signature-256": await sign(secret, body),
  }, sent);
}

for (const [name, body] of Object.entries(bodies)) {
  const now = Date.now();
  await standard(`${name}/true`, body);
  await standard(`${name}/body`, body, { sent: changed(body) });
  await standard(`${name}/id`, body, { send: { "webhook-id": "msg_another" } });
  await standard(`${name}/time`, body, { send: { "webhook-timestamp": String(Math.floor(now / 1000) - 7) } });
  await standard(`${name}/key`, body, { secret: otherStandard });
  await standard(`${name}/old`, body, { at: new Date(now - 3600_000) });
  await standard(`${name}/future`, body, { at: new Date(now + 3600_000) });
  await github(`${name}/true`, body);
  await github(`${name}/body`, body, { sent: changed(body) });
  await github(`${name}/key`, body, { secret: otherGithub });
}
